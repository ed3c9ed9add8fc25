"""`python -m benchmarks.capacity`: a month on each way to buy; --pages writes table and chart into docs/portfolio.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.capacity.report import lines, pages
from benchmarks.capacity.study import study


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the work")
    parser.add_argument("--json", action="store_true", help="one document on stdout")
    parser.add_argument("--pages", type=Path, help="the project's folder: write its page and picture")
    words = parser.parse_args(arguments)
    found = study(words.seed)
    if words.pages is not None:
        pages(found, words.pages)
    print(json.dumps(found, indent=1) if words.json else "\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
