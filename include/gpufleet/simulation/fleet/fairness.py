"""What each team got of the GPUs' time, against what it was due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


def water_fill(deserved: Sequence[float], wanted: Sequence[float], capacity: float) -> list[float]:
    """What each is due of `capacity`: what it deserves, then equal parts of the rest, never more than it wants.

    Deserved amounts are scaled down where their sum is more than there is.
    """
    scale = min(1.0, capacity / sum(deserved)) if sum(deserved) else 1.0
    due = [min(d * scale, w) for d, w in zip(deserved, wanted, strict=True)]
    left, hungry = capacity - sum(due), [i for i, w in enumerate(wanted) if w > due[i]]
    while hungry and left > 1e-9:
        part = left / len(hungry)
        for i in hungry:
            given = min(part, wanted[i] - due[i])
            due[i], left = due[i] + given, left - given
        hungry = [i for i in hungry if wanted[i] - due[i] > 1e-9]
    return due


@dataclass(slots=True)
class Fairness:
    """GPU-seconds after `since` by team. A team wants the GPUs of all its jobs that have come and not ended.

    Due is what `water_fill` gives of the whole fleet, at every moment: an owner is due at once, though nobody can be
    stopped without losing work.
    """

    deserved: tuple[float, ...]
    capacity: float
    since: float = 0.0
    got: list[float] = field(default_factory=list)
    due: list[float] = field(default_factory=list)
    _wanted: list[float] = field(default_factory=list)
    _at: float = 0.0

    def __post_init__(self) -> None:
        self.got, self.due, self._wanted = ([0.0] * len(self.deserved) for _ in range(3))

    def wants(self, team: int, gpus: float, now: float) -> None:
        """A job of the team has come; with a negative amount one has ended."""
        self.advance(now)
        if self.deserved:
            self._wanted[team] += gpus

    def ran(self, team: int, seconds: float, gpus: float) -> None:
        """A job of the team held GPUs for so long."""
        if self.deserved:
            self.got[team] += seconds * gpus

    def advance(self, now: float) -> None:
        """Count what was due until now."""
        seconds = now - max(self._at, self.since)
        if seconds > 0:
            for i, part in enumerate(water_fill(self.deserved, self._wanted, self.capacity)):
                self.due[i] += seconds * part
        self._at = now

    def ratios(self) -> tuple[float, ...]:
        """Got over due, by team; 1 for who was due nothing."""
        return tuple(g / d if d else 1.0 for g, d in zip(self.got, self.due, strict=True))
