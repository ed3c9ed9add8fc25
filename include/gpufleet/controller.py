"""The resident loop: one process under a lease that ticks often. Everything works, slower, without it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Final

import structlog

from gpufleet.errors import GpufleetError
from gpufleet.services.fleet import Fleet
from gpufleet.services.tick import tick
from gpufleet.store import leases

log = structlog.get_logger()

CONTROLLER: Final = "controller"
LEASE: Final = timedelta(seconds=15)


def run_controller(fleet: Fleet, stop: threading.Event, *, every: float = 1.0) -> None:
    """Tick every `every` seconds until `stop`; a second controller waits for the lease and takes over when it falls free."""
    log.info("controller up", fleet=fleet.id, every_s=every)
    while not stop.is_set():
        try:
            if _hold(fleet):
                tick(fleet)
        except GpufleetError as e:
            log.warning("tick failed, trying again", error=str(e))
        stop.wait(every)
    with fleet.database.write() as connection:
        leases.give_back(connection, CONTROLLER, fleet.process)
    log.info("controller down")


def _hold(fleet: Fleet) -> bool:
    with fleet.database.write() as connection:
        return leases.take(connection, CONTROLLER, fleet.process, fleet.clock.now(), LEASE)
