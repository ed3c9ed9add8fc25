"""What was promised for a gang, and how its progress counts, in whole units of time (two minutes in the simulation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

IDLE: Final = -1
ON_DEMAND: Final = -2
"""Places beside the zones, which are numbered from 0."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Work to do, the time until the deadline, the checkpoint interval; `tick` is the time between two looks at the
    market, `delay` what a new set of machines needs before it makes progress. All in the same unit."""

    work: int
    deadline: int
    checkpoint: int
    tick: int = 5
    delay: int = 6

    def progress(self, ticks: int) -> int:
        """What a set of machines has done after so many ticks, the delay off."""
        return max(0, self.tick * ticks - self.delay)

    def lost(self, ticks: int) -> int:
        """What an interruption takes back after so many ticks: everything since the last save."""
        return self.progress(ticks) % self.checkpoint


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands at a look: ticks since its start, work done, the place it has and for how many ticks.

    `up` are the zones it could have now, in order; a job that lost its zone is already `IDLE`, with what was saved.
    """

    tick: int
    done: int
    place: int
    ticks: int
    up: tuple[int, ...]
