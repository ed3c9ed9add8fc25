"""The charges of a month: as the nights stored them, with what was booked beside them; or as the ledger says today."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from heapq import merge
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from gpufleet.chargeback.finance import Finance
from gpufleet.chargeback.losses import Fault, Loss, Losses, credits_for
from gpufleet.formats.finance import load_finance, month_of
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.services.fleet import Fleet
from gpufleet.store import charges as stored
from gpufleet.store import schema as t


@dataclass(frozen=True, slots=True)
class Month:
    """A month of the finance zone, [begin, end)."""

    id: str
    begin: date
    end: date

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.begin + timedelta(days=i) for i in range((self.end - self.begin).days))


def month_named(text: str) -> Month:
    """Of `2026-03`; raises Invalid for anything else."""
    begin = date.fromisoformat(f"{month_of(text)}-01")
    return Month(text, begin, (begin + timedelta(days=31)).replace(day=1))


def finance(fleet: Fleet) -> Finance:
    """finance.yaml of the home, or its defaults."""
    return load_finance(fleet.home / "finance.yaml")


def month_charges(connection: Connection, month: Month) -> Iterator[Charge]:
    """By day and id: what the nights stored and what was booked. This is what a close seals."""
    for day in month.days:
        both = (stored.charges_by_id(connection, table, day) for table in (t.charge, t.booked_charge))
        yield from merge(*both, key=lambda c: c.id)


def credits(connection: Connection, month: Month, policy: Finance) -> list[Charge]:
    """What the platform gives back of the month's charges by the policy, by day and id."""
    if not policy.credit_share:
        return []
    nights = stored.charges(connection, month.begin, month.end)
    return sorted(credits_for(nights, losses(connection), policy.credit_share), key=lambda c: (c.day, c.id))


def losses(connection: Connection) -> Losses:
    """What interrupted attempts lost: from their last save, or from their start, to their end.

    The platform's: an interruption by the cloud, and ends that are not the job's own (lifecycle.blame).
    """
    a, saves = t.attempt, _saves(connection)
    rows = connection.execute(select(a).where(a.c.ended_at.is_not(None)))
    found = (_loss(row, saves.get((row.job, row.number))) for row in rows)
    return {(loss.job, loss.attempt): loss for loss in found if loss is not None}


def idle_stretches(connection: Connection, until: datetime) -> Losses:
    """Since when attempts have not been busy, to their end, or to `until` for those that run; as far as it was measured."""
    a = t.attempt.c
    asked = select(a.job, a.number, a.idle_since, a.ended_at).where(a.idle_since.is_not(None))
    return {
        (row.job, row.number): Loss(row.job, row.number, row.idle_since, row.ended_at or until, Fault.JOB, "idle")
        for row in connection.execute(asked)
    }


def _saves(connection: Connection) -> dict[tuple[str, int], datetime]:
    """The last save of each attempt."""
    c = t.checkpoint.c
    found: dict[tuple[str, int], datetime] = {}
    for row in connection.execute(select(c.job, c.attempt, c.at).order_by(c.at)):
        found[row.job, row.attempt] = row.at
    return found


OURS: Final = re.compile(r"(reclaim|preempt) for .*|moves (to|so) .*|leaves spot .*|rank \d+ (lost its|was stopped) .*")
"""How an attempt's end reads when the platform ended it: an eviction, a move, a node that was lost."""
OWN: Final = re.compile(r"ended with exit status|used more|\(failure \d+ of")
"""And when the job did, whatever else was noticed beside it."""


def _loss(row: Row[Any], saved: datetime | None) -> Loss | None:
    """None for an attempt that did its work, that never ran, or that ended right after a save."""
    if row.running_at is None or row.end_reason == "succeeded":
        return None
    since = max(saved, row.running_at) if saved else row.running_at
    if since >= row.ended_at:
        return None
    ours = not OWN.search(row.end_reason) and (row.interruption is not None or bool(OURS.fullmatch(row.end_reason)))
    fault = Fault.PLATFORM if ours else Fault.JOB
    return Loss(row.job, row.number, since, row.ended_at, fault, row.end_reason)


def daily_cost(charges: Iterator[Charge]) -> dict[str, dict[date, int]]:
    """Nano-units by team and day, purchases left out."""
    found: dict[str, dict[date, int]] = {}
    for charge in charges:
        if charge.kind is not ChargeKind.PURCHASE:
            days = found.setdefault(charge.team, {})
            days[charge.day] = days.get(charge.day, 0) + charge.cost_nano
    return found
