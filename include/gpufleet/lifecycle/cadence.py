"""When a running job is asked to save by the orchestrator: only when its own saves are late."""

from __future__ import annotations

from datetime import datetime, timedelta

LATE = 2
"""Intervals without a save after which we ask: the job saves by itself, one missed beat may be a slow store."""


def save_is_overdue(
    now: datetime, started_at: datetime, last_save: datetime | None, interval: timedelta, asked: datetime | None
) -> bool:
    """Whether to ask now: the last save (or the start) is `LATE` intervals old and nothing was asked meanwhile."""
    since = max(last_save, started_at) if last_save else started_at
    if now - since < LATE * interval:
        return False
    return asked is None or now - asked >= interval
