"""`python -m gpufleet.node_agent`: runs until SIGTERM. Everything it must know is in its environment.

GPUFLEET_FLEET, GPUFLEET_NODE, GPUFLEET_NAMESPACES (separated by commas), GPUFLEET_CLOUD (aws, gcp, azure; empty = none
is asked), GPUFLEET_MACHINE (Azure's name of this machine, where the node is called otherwise).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping

from gpufleet.clock import SystemClock
from gpufleet.errors import Invalid
from gpufleet.node_agent.agent import Agent
from gpufleet.node_agent.clouds.aws import Aws
from gpufleet.node_agent.clouds.azure import Azure
from gpufleet.node_agent.clouds.base import Metadata
from gpufleet.node_agent.clouds.gcp import Gcp
from gpufleet.node_agent.cluster import NodeApi, in_cluster
from gpufleet.node_agent.devices import read_back

EVERY = 1.0
"""Seconds between rounds: GCP and Azure leave thirty in all."""


def cloud_from(environment: Mapping[str, str]) -> Metadata | None:
    """Raises Invalid for a cloud that nobody knows."""
    name = environment.get("GPUFLEET_CLOUD", "")
    match name:
        case "":
            return None
        case "aws":
            return Aws()
        case "gcp":
            return Gcp()
        case "azure":
            return Azure(environment.get("GPUFLEET_MACHINE") or environment.get("GPUFLEET_NODE", ""))
        case _:
            raise Invalid(f"GPUFLEET_CLOUD is '{name}'; it must be aws, gcp or azure, or empty.")


def run(agent: Agent, stopped: threading.Event, every: float = EVERY) -> None:
    while not stopped.is_set():
        agent.round()
        stopped.wait(every)


def main() -> int:
    environment = os.environ
    missing = [n for n in ("GPUFLEET_FLEET", "GPUFLEET_NODE", "GPUFLEET_NAMESPACES") if not environment.get(n)]
    if missing:
        print(f"gpufleet node agent: {missing[0]} is not set.", file=sys.stderr)
        return 2
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    namespaces = environment["GPUFLEET_NAMESPACES"].split(",")
    api = NodeApi(in_cluster(), environment["GPUFLEET_NODE"], environment["GPUFLEET_FLEET"], namespaces)
    run(Agent(cloud_from(environment), api, SystemClock(), read_back), stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
