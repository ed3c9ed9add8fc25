"""Time as an argument. Pure rooms take an instant; only the edges hold a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Says what time it is, in aware UTC."""

    def now(self) -> datetime:
        """The instant, aware, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class AcceleratedClock:
    """A clock whose days pass faster, for the embedded fleet: `factor` seconds for each real one since `epoch`."""

    def __init__(self, epoch: datetime, factor: float) -> None:
        self._epoch, self._factor = epoch, factor

    def now(self) -> datetime:
        return self._epoch + (datetime.now(UTC) - self._epoch) * self._factor


class ManualClock:
    """A clock that stands still until told otherwise; for tests and simulations."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def advance(self, by: timedelta) -> None:
        self._at += by
