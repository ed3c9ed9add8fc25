"""Charges for tests: said in the money of the case, everything else filled in."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from gpufleet.model.charge import Charge, ChargeKind

NANO = 1_000_000_000
_numbers = count()


def at(day: str | date, hours: float = 0) -> datetime:
    """The instant so many hours into a UTC day."""
    day = date.fromisoformat(day) if isinstance(day, str) else day
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hours)


def charge(day: str = "2026-03-10", cost: float = 1, **more: Any) -> Charge:
    """Use of an hour at 10:00 by vision's job a, unless said otherwise; `cost` and `hours` in whole units."""
    hours = more.pop("hours", 1)
    told: dict[str, Any] = {
        "id": f"c{next(_numbers):06}", "kind": ChargeKind.USE, "begin": at(day, 10), "end": at(day, 11),
        "team": "vision", "project": "detector", "job": "a", "attempt": 1, "node": "node-1", "gpu": 0,
        "quota": "guaranteed",
    }  # fmt: skip
    told |= {"cost_nano": round(cost * NANO), "hours_nano": round(hours * NANO)} | more
    told.setdefault("billed_nano", told["cost_nano"])
    return Charge(day=date.fromisoformat(day), **told)
