"""One tick now, on behalf of someone who waits: about two seconds of their time."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from gpufleet.errors import GpufleetError
from gpufleet.services.fleet import Fleet
from gpufleet.services.tick import served, tick
from gpufleet.store import leases

PATIENCE: Final = timedelta(seconds=2)


def prompt_tick(fleet: Fleet, *, wait: bool = True) -> bool:
    """True when a tick has run since the call; without `wait`, a tick that another process is at is left to it.

    A world that does not answer is the controller's business, not the asker's."""
    try:
        if tick(fleet, patience=PATIENCE):
            return True
        if not wait:
            return False
        with fleet.database.read() as connection:
            wanted, _done = leases.counters(connection)
        until = time.monotonic() + PATIENCE.total_seconds()
        while time.monotonic() < until:
            if served(fleet, wanted):
                return True
            time.sleep(0.05)
    except GpufleetError:
        return False
    return False
