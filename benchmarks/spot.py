"""`python -m benchmarks.spot`: deadline gangs on the recorded H100 spot market, policy by policy; `--pages` writes the
table of docs/procurement.md and its picture anew. Data and their sources: benchmarks/data/spot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from benchmarks.experiments import PROJECT
from benchmarks.markers import rewritten
from gpufleet.errors import Invalid
from gpufleet.formats.spot_trace import load_prices, load_trace
from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market, market
from gpufleet.simulation.spot.optimum import optimum
from gpufleet.simulation.spot.study import POLICIES, average, ratio, study

DATA: Final = PROJECT / "benchmarks" / "data" / "spot"
PAGE: Final = PROJECT / "docs" / "procurement.md"
PICTURE: Final = PROJECT / "docs" / "pictures" / "spot.png"
TERMS: Final = Terms(work=48 * 30, deadline=60 * 30, checkpoint=5)
CASES: Final = (("us", 8), ("us", 16), ("all", 8), ("all", 16), ("us-central1-a", 16), ("us-east5-a", 16))
KNOWING: Final = "future known"


@dataclass(frozen=True, slots=True)
class Line:
    """One policy in one case; ratios against on-demand only, over jobs that ended."""

    zones: str
    gang: int
    policy: str
    missed: int
    mean: float
    p90: float | None
    preemptions: float | None


def measure(every: int) -> Iterator[Line]:
    """Every policy in every case, a job at every so many rows; the least that knowing the future allows comes last."""
    trace = load_trace(DATA / "gcp_h100_spot_launch_counts_2025-10.csv")
    prices = load_prices(DATA / "gcp_h100_zone_price_per_gpu_h.json")
    for zones, gang in CASES:
        place = market(trace, prices, zones, gang)
        for policy in POLICIES:
            yield _line(place, zones, gang, policy, every)
        costs = optimum(place, TERMS, range(0, place.rows, every))
        mean = average([ratio(Fraction(c), TERMS) for c in costs])
        yield Line(zones, gang, KNOWING, 0, float(mean or 0), None, None)


def _line(place: Market, zones: str, gang: int, policy: str, every: int) -> Line:
    found = study(place, TERMS, policy, range(0, place.rows, every))
    mean, p90, preemptions = (float(v) if v is not None else None for v in (found.mean, found.p90, found.preemptions))
    return Line(zones, gang, policy, found.missed, mean if mean is not None else float("nan"), p90, preemptions)


def table(lines: list[Line]) -> str:
    """Markdown; misses are of all jobs."""
    rows = ["| zones | gang | policy | missed | cost, mean | p90 | preemptions |", "|---|---|---|---|---|---|---|"]
    for line in lines:
        ended = line.mean == line.mean
        cells = [
            line.zones,
            str(line.gang),
            line.policy,
            str(line.missed),
            f"{line.mean:.3f}" if ended else "none ended",
        ]
        cells += ["" if line.p90 is None else f"{line.p90:.3f}"]
        cells += ["" if line.preemptions is None else f"{line.preemptions:.1f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def write_pages(lines: list[Line]) -> None:
    """The table into its page, the picture beside the others."""
    import vl_convert

    from benchmarks.png import squeezed
    from benchmarks.spot_chart import chart

    PAGE.write_text(rewritten(PAGE.read_text(), {"spot": table(lines)}, PAGE.name))
    PICTURE.write_bytes(squeezed(vl_convert.vegalite_to_png(chart(lines).to_json(), scale=2)))


def main(words: list[str]) -> int:
    """0; 2 with a sentence where the words or the page are wrong."""
    parser = argparse.ArgumentParser("python -m benchmarks.spot", description=__doc__)
    parser.add_argument("--every", type=int, default=71, help="a job at every so many rows of the trace")
    parser.add_argument("--pages", action="store_true", help=f"write {PAGE.relative_to(PROJECT)} and its picture")
    asked = parser.parse_args(words)
    lines = []
    try:
        if asked.every < 1:
            raise Invalid("--every is at least 1.")
        for line in measure(asked.every):
            print(f"{line.zones:14} {line.gang:3} {line.policy:17} {line.mean:.4f} {line.missed} missed", flush=True)
            lines.append(line)
        if asked.pages:
            write_pages(lines)
    except Invalid as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
