"""`python -m gpufleet.sandbox --home DIR --world FILE [--stop-pods]`."""

from __future__ import annotations

import argparse
import ipaddress
import sys
from pathlib import Path

from gpufleet.errors import GpufleetError, Invalid
from gpufleet.sandbox.world import read_world


def main() -> int:
    asked = _parser().parse_args()
    try:
        if sys.platform != "linux":
            raise Invalid("The sandbox needs Linux: it tells processes apart by what /proc says of them.")
        address, world = loopback(asked.host), read_world(asked.world)
        from gpufleet.sandbox.server import run  # takes a second to load: a mistake is told before

        run(asked.home, world, address=address, stop_pods=asked.stop_pods)
    except GpufleetError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def loopback(host: str) -> str:
    """The address to listen on; raises Invalid for one that other machines could reach."""
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise Invalid(f"'{host}' is not an IPv4 address; the sandbox listens on 127.0.0.1.") from None
    if not address.is_loopback:
        raise Invalid(f"The sandbox listens on loopback only: {host} would let other machines start processes here.")
    return str(address)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m gpufleet.sandbox", description="The embedded world of gpufleet.")
    parser.add_argument("--home", type=Path, required=True, help="folder for its state; sandbox.json appears there")
    parser.add_argument("--world", type=Path, required=True, help="world.yaml: nodes, offerings, clock")
    parser.add_argument("--host", default="127.0.0.1", help="an address of loopback; anything else is refused")
    parser.add_argument("--stop-pods", action="store_true", help="end all pods with the sandbox")
    return parser


if __name__ == "__main__":
    sys.exit(main())
