"""Days of a named time zone as stretches of instants (rules 1 to 3).

Inside this room an instant is a whole number of microseconds since 1970: exact, and cheap to compare a million times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
HOUR: Final = 3_600_000_000
"""Microseconds of an hour."""

FOREVER: Final = 1 << 62
"""Later than any instant a file can name."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day and its instants, [begin, end): 23 hours, 25, or none, where the zone says so."""

    date: date
    begin: int
    end: int


def micros(at: datetime) -> int:
    """The instant as this room counts it."""
    return (at - EPOCH) // MICROSECOND


def days(first: date, last: date, zone: ZoneInfo) -> tuple[Day, ...]:
    """The days of [first, last), each ending where the next begins."""
    found = list(_days(first, last))
    borders = [first_instant(d, zone) for d in [*found, last]]
    return tuple(Day(d, borders[i], borders[i + 1]) for i, d in enumerate(found))


def _days(first: date, last: date) -> Iterator[date]:
    for ordinal in range(first.toordinal(), last.toordinal()):
        yield date.fromordinal(ordinal)


def first_instant(day: date, zone: ZoneInfo) -> int:
    """Where the day begins (rule 2); midnight, or the end of the gap where clocks jump over midnight."""
    midnight = datetime.combine(day, time(), zone)
    instant = micros(midnight.astimezone(UTC))
    second = instant // 1_000_000
    if _date_at(second, zone) == day and _date_at(second - 1, zone) < day:
        return instant
    low, high = second - 2 * 86_400, second + 86_400  # no clock was ever set by more than a day
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _date_at(middle, zone) >= day else (middle, high)
    return high * 1_000_000


def _date_at(second: int, zone: ZoneInfo) -> date:
    return (EPOCH + timedelta(seconds=second)).astimezone(zone).date()
