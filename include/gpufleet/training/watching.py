"""Why a rank wants to save or stop: its clock, a request in the control file, SIGTERM."""

from __future__ import annotations

import signal
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Final

from gpufleet.training.clock import Clock
from gpufleet.training.manifest import Control, parse_control

LOOK_SECONDS: Final = 0.2
"""How often the control file is read at most: far below any notice period, far above the cost of a read."""

_LONGEST: Final = 64 * 1024
"""Bytes of a control file that are read; a real one has about fifty."""


class Wish(IntEnum):
    """What a rank wants after this step. Combine over all ranks by `max`, so that all do the same."""

    NOTHING = 0
    SAVE = 1
    STOP = 2


class StopFlag:
    """Raised by SIGTERM. The handler does nothing else: a save in a handler could meet a save half done."""

    def __init__(self) -> None:
        self.is_raised = False

    def install(self) -> StopFlag:
        """Listen to SIGTERM; only the main thread may."""
        signal.signal(signal.SIGTERM, self._raise)
        return self

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        self.is_raised = True


class Watch:
    """When this rank wants a save. `seen` is the newest request in the control file, `done` the newest answered."""

    def __init__(self, interval: float, control_file: Path | None, done: int, clock: Clock) -> None:
        self._interval, self._control_file, self._clock = interval, control_file, clock
        self.seen = self.done = self._tried = done
        self._due = clock.monotonic() + interval
        self._next_look = clock.monotonic()

    def wants_save(self) -> bool:
        now = self._clock.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self.seen = max(self.seen, self._read().save)
        return now >= self._due or self.seen > self._tried

    def saved(self, request: int) -> None:
        """A save is complete that began when *request* had been seen."""
        self.done = max(self.done, request)
        self._wait(request)

    def failed(self, request: int) -> None:
        """It was tried. Until the interval is over only a new request asks again, so a full disk is not hammered."""
        self._wait(request)

    def _wait(self, request: int) -> None:
        self._tried = max(self._tried, request)
        self._due = self._clock.monotonic() + self._interval

    def _read(self) -> Control:
        """Half written, absent or unreadable is no request; the next look sees it whole."""
        if self._control_file is None:
            return Control()
        try:
            with self._control_file.open("rb") as file:
                return parse_control(file.read(_LONGEST), str(self._control_file))
        except (OSError, ValueError):
            return Control()
