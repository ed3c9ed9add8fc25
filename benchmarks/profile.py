"""A profile from end to end: run, hold against the ranges, and (full) write the pages."""

from __future__ import annotations

import sys
import time

from benchmarks.experiments import PROJECT, experiments, works
from benchmarks.figures import figures
from benchmarks.known import Known
from benchmarks.ranges import Range, range_of, read_ranges, wrong
from benchmarks.results import OUT, load_all
from benchmarks.run import run_all


def run(profile: str) -> int:
    """0, or 1 with a sentence on stderr for every figure outside its range and every experiment that broke."""
    started, listed, ranges = time.monotonic(), experiments(profile), read_ranges(profile)
    outcomes, broken = run_all(listed, OUT / profile, tell=lambda words: print(words, file=sys.stderr, flush=True))
    found = figures(listed, outcomes)
    print("\n".join(told(found, ranges)))
    sentences = [*broken, *wrong(found, ranges)]
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    if profile == "full" and not broken:
        _write(Known(tuple(listed), outcomes, works()))
    print(f"{len(found)} figures in {time.monotonic() - started:.0f} s, {len(sentences)} complaints")
    return 1 if sentences else 0


def told(found: dict[str, float], ranges: list[Range]) -> list[str]:
    """The table: figure, value, range."""
    lines = [f"{'figure':48} {'value':>11}  range"]
    for name, value in found.items():
        its = range_of(name, ranges)
        inside = its is not None and its.holds(value)
        lines.append(f"{name:48} {value:11.5g}  {its.shown if its else 'none'}{'' if inside else '   <- outside'}")
    return lines


def pages() -> int:
    """Pages and pictures again from what the full profile measured."""
    listed = experiments("full")
    _write(Known(tuple(listed), load_all(OUT / "full", listed), works()))
    return 0


def _write(known: Known) -> None:
    from benchmarks.report import write  # the charts' libraries are asked for only where charts are drawn

    for path in write(known):
        print(f"written: {path.relative_to(PROJECT)}")
