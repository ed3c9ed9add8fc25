"""The resident processes."""

from __future__ import annotations

import signal
import sys
import threading

from gpufleet.services.fleet import Fleet


def controller(fleet: Fleet, every: float) -> None:
    """Tick until SIGTERM or SIGINT, then give the leases back."""
    import structlog

    from gpufleet.controller import run_controller

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run_controller(fleet, stop, every=every)
