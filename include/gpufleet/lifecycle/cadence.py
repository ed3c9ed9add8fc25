"""How often a job should save, and when the orchestrator asks it to: only when its own saves are late."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from gpufleet.errors import Invalid

LATE = 2
"""Intervals without a save after which we ask: the job saves by itself, one missed beat may be a slow store."""

NOTICE_MARGIN = 2
"""A notice of so many times a save is trusted to be enough: all ranks must hear of it and write at once."""


def save_is_overdue(
    now: datetime, started_at: datetime, last_save: datetime | None, interval: timedelta, asked: datetime | None
) -> bool:
    """Whether to ask now: the last save (or the start) is `LATE` intervals old and nothing was asked meanwhile."""
    since = max(last_save, started_at) if last_save else started_at
    if now - since < LATE * interval:
        return False
    return asked is None or now - asked >= interval


def best_interval(
    save: timedelta, between_interruptions: timedelta, notice: timedelta, least: timedelta, most: timedelta
) -> timedelta:
    """How often to save so that the least time is lost: Daly's optimum, inside the team's bounds.

    `save` is what a save stops the training for, `between_interruptions` the mean time from one to the next. Daly (2006):
    sqrt(2 s M) (1 + sqrt(s / 2M) / 3 + s / 18M) - s for s < 2M, else M; Young's sqrt(2 s M) is its first term. Where a
    notice leaves time for a whole save, interruptions take nothing back and only those without notice count: then as
    seldom as the team allows. Raises Invalid for a time that is not above 0 or bounds that are crossed.
    """
    if not (save > timedelta(0) and between_interruptions > timedelta(0) and timedelta(0) < least <= most):
        raise Invalid(
            "a save, the time between interruptions and the bounds must be above 0, the least not above the most."
        )
    if notice >= save * NOTICE_MARGIN:
        return most
    return max(least, min(most, _daly(save, between_interruptions)))


def _daly(save: timedelta, between: timedelta) -> timedelta:
    part = save / (2 * between)
    if part >= 1:
        return between
    return 2 * between * (math.sqrt(part) + part / 3 + part * math.sqrt(part) / 9) - save
