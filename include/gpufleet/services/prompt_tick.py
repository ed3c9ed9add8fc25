"""One tick now, on behalf of someone who waits: at most two seconds of their time."""

from __future__ import annotations

import time
from typing import Final

from gpufleet.errors import GpufleetError
from gpufleet.services.fleet import Fleet
from gpufleet.services.tick import served, tick
from gpufleet.store import leases

PATIENCE: Final = 2.0


def prompt_tick(fleet: Fleet) -> bool:
    """True when a tick has run since the call. A world that does not answer is the controller's business, not the asker's."""
    try:
        if tick(fleet):
            return True
        with fleet.database.read() as connection:
            wanted, _done = leases.counters(connection)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if served(fleet, wanted):
                return True
            time.sleep(0.05)
    except GpufleetError:
        return False
    return False
