"""`python -m gpufleet.sandbox --home DIR --world FILE [--stop-pods]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpufleet.errors import GpufleetError
from gpufleet.sandbox.environment import LOOPBACK
from gpufleet.sandbox.server import run


def main() -> int:
    asked = _parser().parse_args()
    try:
        run(asked.home, asked.world, host=asked.host, stop_pods=asked.stop_pods)
    except GpufleetError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gpufleet.sandbox", description="The embedded world of gpufleet.")
    parser.add_argument("--home", type=Path, required=True, help="folder for its state; sandbox.json appears there")
    parser.add_argument("--world", type=Path, required=True, help="world.yaml: nodes, offerings, clock")
    parser.add_argument("--host", default=LOOPBACK, help="an address of loopback; anything else is refused")
    parser.add_argument("--stop-pods", action="store_true", help="end all pods with the sandbox")
    return parser


if __name__ == "__main__":
    sys.exit(main())
