"""Months in the database: closed, re-opened, reconciled; what was booked beside the nights; alerts of budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from gpufleet.model.charge import Charge
from gpufleet.store import schema as t
from gpufleet.store.charges import charge_of, columns_of, read_charges, row_of


def closes(connection: Connection, month: str) -> tuple[Row[Any], ...]:
    """Every close of the month, the first first."""
    m = t.month_close
    return tuple(connection.execute(select(m).where(m.c.month == month).order_by(m.c.version)))


def standing_close(connection: Connection, month: str) -> Row[Any] | None:
    """The close that stands, or None where the month is open."""
    return next((row for row in closes(connection, month) if row.reopened_at is None), None)


def closed_months(connection: Connection) -> tuple[str, ...]:
    """Ids of months that are closed now, in order."""
    m = t.month_close
    return tuple(connection.execute(select(m.c.month).where(m.c.reopened_at.is_(None)).order_by(m.c.month)).scalars())


def put_close(connection: Connection, **values: Any) -> None:
    connection.execute(insert(t.month_close).values(**values))


def reopen(connection: Connection, month: str, now: datetime, who: str, why: str) -> None:
    """The close that stands stays written down, with who re-opened the month and why."""
    m = t.month_close
    asked = update(m).where(m.c.month == month, m.c.reopened_at.is_(None))
    connection.execute(asked.values(reopened_at=now, reopened_by=who, why=why))


def set_standing(connection: Connection, days: Iterable[str], state: str) -> None:
    d = t.day_status
    connection.execute(update(d).where(d.c.day.in_(list(days))).values(state=state))


def day_states(connection: Connection, first: date, last: date) -> dict[str, str]:
    """The standing of each published day of [first, last)."""
    d = t.day_status.c
    asked = select(d.day, d.state).where(d.day >= first.isoformat(), d.day < last.isoformat()).order_by(d.day)
    return {row.day: row.state for row in connection.execute(asked)}


def state_of(connection: Connection, first: date, last: date) -> tuple[Any, ...]:
    """Changes whenever charges or standings of the days [first, last) do."""
    found: list[Any] = [tuple(day_states(connection, first, last).items())]
    for table in (t.charge, t.booked_charge):
        c = table.c
        asked = select(func.count(), func.sum(c.cost_nano), func.sum(c.hours_nano), func.max(c.id))
        within = (c.day >= first.isoformat(), c.day < last.isoformat())
        found.append(tuple(connection.execute(asked.where(*within)).one()))
    return tuple(found)


def book(connection: Connection, source: str, charges: Iterable[Charge], *, again: bool) -> int:
    """Write charges beside the nights' own; with `again` those of the same source are replaced. Returns how many."""
    rows = [{**row_of(charge), "source": source} for charge in charges]
    if again:
        connection.execute(delete(t.booked_charge).where(t.booked_charge.c.source == source))
    if rows:
        connection.execute(insert(t.booked_charge), rows)
    return len(rows)


def booked(connection: Connection, first: date, last: date) -> Iterator[Charge]:
    """What was booked on the days [first, last), in the order of charges."""
    return read_charges(connection, t.booked_charge, first, last)


def booked_about(connection: Connection, month: str) -> Iterator[Charge]:
    """Corrections of the month, whichever month they are booked in."""
    b = t.booked_charge
    for row in connection.execute(columns_of(b).where(b.c.corrects == month).order_by(b.c.day, b.c.id)):
        yield charge_of(row)


def put_reconciliation(
    connection: Connection, month: str, provider: str, now: datetime, report: dict[str, Any]
) -> None:
    r = t.reconciliation
    connection.execute(delete(r).where(r.c.month == month, r.c.provider == provider))
    connection.execute(insert(r).values(month=month, provider=provider, made_at=now, report=report))


def reconciliations(connection: Connection, month: str) -> tuple[Row[Any], ...]:
    """The newest report of each provider, by its name."""
    r = t.reconciliation
    return tuple(connection.execute(select(r).where(r.c.month == month).order_by(r.c.provider)))


def note_alert(connection: Connection, month: str, team: str, threshold: int, **values: Any) -> bool:
    """True where nobody was told of it yet; each threshold once a month."""
    a = t.budget_alert
    key = {"month": month, "team": team, "threshold": threshold}
    if connection.execute(select(a.c.threshold).filter_by(**key)).first():
        return False
    connection.execute(insert(a).values(**key, **values))
    return True


def alerts(connection: Connection, month: str) -> tuple[Row[Any], ...]:
    a = t.budget_alert
    return tuple(connection.execute(select(a).where(a.c.month == month).order_by(a.c.team, a.c.threshold)))
