"""The clock of a rank process, in one place so that a test can hold it still."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final


class Clock:
    """The machine's clock. `monotonic` measures waits: a corrected wall clock must not stretch one."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


CLOCK: Final = Clock()


@dataclass(slots=True)
class Patience:
    """Bounded waiting with short pauses that grow: `again` pauses and says whether there is time left."""

    clock: Clock
    until: float
    pause: float = 0.01
    longest: float = 0.5

    @classmethod
    def of(cls, seconds: float, clock: Clock) -> Patience:
        return cls(clock, clock.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return self.clock.monotonic() >= self.until

    def again(self) -> bool:
        if self.is_over:
            return False
        self.clock.sleep(self.pause)
        self.pause = min(self.pause * 2, self.longest)
        return True
