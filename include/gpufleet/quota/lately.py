"""What queues used lately: GPU-time that counts for less the longer ago it was, as a share of what the fleet had.

The half-life halves the weight of an hour; time before the window does not count (KAI's time-based fair share,
docs/time-based-fairshare there).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import log

WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Held:
    """So many GPUs in use by a queue from `begin` to `end`; None = still."""

    queue: str
    gpus: Fraction
    begin: datetime
    end: datetime | None = None


def used_lately(
    held: Iterable[Held], gpus: Fraction, now: datetime, half_life: timedelta = WEEK, window: timedelta = WEEK
) -> dict[str, float]:
    """Queue -> decayed share of a fleet of so many GPUs, to six places; queues that used nothing are left out."""
    whole = float(gpus) * _decayed(now - window, now, now, half_life)
    used: dict[str, float] = {}
    for one in sorted(held, key=lambda h: (h.begin, h.queue)):
        begin, end = max(one.begin, now - window), min(one.end or now, now)
        if begin < end:
            used[one.queue] = used.get(one.queue, 0.0) + float(one.gpus) * _decayed(begin, end, now, half_life)
    return {queue: round(amount / whole, 6) for queue, amount in sorted(used.items())} if whole else {}


def _decayed(begin: datetime, end: datetime, now: datetime, half_life: timedelta) -> float:
    """Seconds from begin to end, each weighed by its age: the integral of 0.5^(age / half-life)."""
    since, until = (now - begin) / half_life, (now - end) / half_life
    return float(half_life.total_seconds() / log(2) * (0.5**until - 0.5**since))
