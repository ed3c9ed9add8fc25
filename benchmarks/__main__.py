"""`python -m benchmarks speed`: measure, print a table, and exit 1 where a figure leaves its range."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.speed import measure

RANGES = Path(__file__).parent / "ranges.yaml"


def speed() -> int:
    """Figures as they are found, then the verdicts."""
    figures: dict[str, float] = {}
    print(f"{'figure':34} {'seconds':>12} {'x fixed work':>14}")
    for name, value in measure():
        figures[name] = value
        print(f"{name:34} {value:12.6f} {value / figures['fixed_work']:14.5f}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'memory_mib':34} {peak:12.0f}")
    wrong = outside(figures, peak, yaml.safe_load(RANGES.read_text()))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def outside(figures: dict[str, float], peak_mib: float, ranges: dict[str, Any]) -> list[str]:
    """A sentence for every figure that is not inside its range."""
    unit, wrong = figures["fixed_work"], []
    for name, most in ranges["most"].items():
        if figures[name] / unit > most:
            wrong.append(f"{name} took {figures[name] / unit:.5f} x the fixed work, at most {most} is allowed.")
    for pair, most in ranges["ratio"].items():
        above, below = (figures[part] for part in pair.split(" / "))
        if above / below > most:
            wrong.append(f"{pair} is {above / below:.2f}, at most {most} is allowed.")
    if peak_mib > ranges["memory_mib"]:
        wrong.append(f"the benchmark used {peak_mib:.0f} MiB, at most {ranges['memory_mib']} are allowed.")
    return wrong


def main(words: list[str]) -> int:
    if words != ["speed"]:
        print("usage: python -m benchmarks speed", file=sys.stderr)
        return 2
    return speed()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
