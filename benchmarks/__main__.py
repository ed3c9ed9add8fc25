"""`python -m benchmarks`: run a profile and hold it against its ranges, write the pages, or do one measurement alone."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path

from gpufleet.errors import Invalid


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    doors = found.add_subparsers(dest="door", required=True)
    run = doors.add_parser("run", help="every experiment, each figure against its range; full also writes the pages")
    run.add_argument("profile", help="full or quick")
    doors.add_parser("pages", help="pages and charts again, from the results of the full profile")
    speed = doors.add_parser("speed", help="how fast the engine decides")
    speed.add_argument("--repeats", type=int, default=2, help="the best of so many counts")
    speed.add_argument("--json", action="store_true", help="one document on stdout")
    ceiling = doors.add_parser("ceiling", help="what any rule could give out on an openb workload")
    for file in ("pods", "nodes", "order", "ties"):
        ceiling.add_argument(f"--{file}", type=Path, required=True, help="as of gpufleet simulate openb")
    ceiling.add_argument("--seeds", type=int, default=10, help="how many rows of order and ties")
    return found


def speed(repeats: int, as_json: bool) -> int:
    """Figures as they are found; seconds, and as multiples of the fixed work."""
    from benchmarks.speed import measure

    if repeats < 1:
        raise Invalid("--repeats is at least 1.")
    found = []
    print(f"{'figure':34} {'seconds':>12} {'x fixed work':>14}", file=sys.stderr)
    for timed in measure(repeats):
        found.append(asdict(timed))
        print(f"{timed.name:34} {timed.seconds:12.6f} {timed.times:14.5f}", file=sys.stderr, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'memory_mib':34} {peak:12.0f}", file=sys.stderr)
    if as_json:
        print(json.dumps({"figures": found, "memory_mib": round(peak, 1)}, indent=1))
    return 0


def ceiling(words: argparse.Namespace) -> int:
    """One JSON document."""
    from benchmarks.ceiling import document

    if words.seeds < 1:
        raise Invalid("--seeds is at least 1.")
    print(json.dumps(document(words.pods, words.nodes, words.order, words.ties, words.seeds), indent=1))
    return 0


def main(arguments: list[str]) -> int:
    """0 all is well, 1 a figure left its range or an experiment broke, 2 the words or the files are wrong."""
    from benchmarks import profile

    words = parser().parse_args(arguments)
    try:
        match words.door:
            case "run":
                return profile.run(words.profile)
            case "pages":
                return profile.pages()
            case "speed":
                return speed(words.repeats, words.json)
            case _:
                return ceiling(words)
    except Invalid as why:
        print(why, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
