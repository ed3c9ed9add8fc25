"""Where a finance day begins and how long it is."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

import pytest

from gpufleet.chargeback.days import EPOCH, HOUR, MICROSECOND, days, first_instant

BEGINS = {
    "UTC": ("UTC", date(2026, 3, 10), "2026-03-10T00:00:00"),
    "half past, in Kolkata": ("Asia/Kolkata", date(2026, 3, 11), "2026-03-10T18:30:00"),
    "midnight does not exist in Havana on this day": ("America/Havana", date(2026, 3, 8), "2026-03-08T05:00:00"),
    "midnight comes twice in Havana on this day": ("America/Havana", date(2026, 11, 1), "2026-11-01T04:00:00"),
    "a gap from before midnight until after it": ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30:00"),
    "a day that Samoa skipped": ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00:00"),
    "the day after it": ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00:00"),
}


@pytest.mark.parametrize(("zone", "day", "want"), BEGINS.values(), ids=BEGINS)
def test_a_day_begins(zone: str, day: date, want: str) -> None:
    assert (EPOCH + first_instant(day, ZoneInfo(zone)) * MICROSECOND).strftime("%Y-%m-%dT%H:%M:%S") == want


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/New_York", date(2026, 3, 8), 23),
        ("America/New_York", date(2026, 11, 1), 25),
        ("Pacific/Apia", date(2011, 12, 30), 0),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
    ],
)
def test_a_day_is_as_long_as_its_zone_says(zone: str, day: date, hours: float) -> None:
    (found,) = days(day, date.fromordinal(day.toordinal() + 1), ZoneInfo(zone))
    assert (found.end - found.begin) / HOUR == hours
