"""How long machines are expected to stay at an offering, from what became of those we had there (`survival`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpufleet.procurement.spot.survival import CAUTION, FADE, LOST, OLDEST, remaining_life

TICK: Final = timedelta(minutes=10)
"""The time between two looks that the curves of `survival` are told for."""
REMEMBERED: Final = timedelta(days=7)
"""Evidence fades with a memory of 30 hours: what ended a week ago counts for less than a hundredth."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Machines of one purchase, which a market takes back together or not at all: at which offering, from when to when
    (None: they are still there), and whether the cloud took them."""

    offering: str
    began: datetime
    ended: datetime | None
    was_taken: bool


def lives(stays: Iterable[Stay], now: datetime) -> Mapping[str, float]:
    """Hours that machines bought now are expected to stay, by offering; one without history is not in it."""
    by_offering: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays:
        by_offering[stay.offering].append(stay)
    return {offering: _life(of_it, now) for offering, of_it in sorted(by_offering.items())}


UNKNOWN: Final = remaining_life(1.0, 1) * (TICK / timedelta(hours=1))
"""Hours at an offering that nothing is known of: a young zone on the average curve."""


def _life(stays: list[Stay], now: datetime) -> float:
    ends, expected = CAUTION, CAUTION
    for stay in stays:
        for age in range(1, _ticks(stay.began, stay.ended or now) + 1):
            expected += LOST[min(age, OLDEST)] * _weight(stay.began + age * TICK, now)
        ends += stay.was_taken * _weight(stay.ended or now, now)
    since = min((s.began for s in stays if s.ended is None and not s.was_taken), default=now)
    return remaining_life(ends / expected, max(1, _ticks(since, now))) * (TICK / timedelta(hours=1))


def _ticks(begin: datetime, end: datetime) -> int:
    return max(0, (end - begin) // TICK)


def _weight(at: datetime, now: datetime) -> float:
    """What evidence of then is still worth."""
    return float(FADE ** max(0.0, (now - at) / TICK))
