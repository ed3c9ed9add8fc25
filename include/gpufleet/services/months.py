"""A month: shown to date, closed, verified, opened again by an admin; what comes later for a closed one is a correction."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, update

from gpufleet.chargeback.billing import itemised
from gpufleet.chargeback.corrections import corrections
from gpufleet.chargeback.days import first_instant
from gpufleet.chargeback.month import Dealt, dealt, digest, summed
from gpufleet.chargeback.rates import Rates
from gpufleet.errors import Invalid
from gpufleet.formats.rates import rates_of
from gpufleet.model.charge import Charge
from gpufleet.model.statement import Standing, Statement
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import Facts
from gpufleet.services.rights import check_platform
from gpufleet.store import charges as stored
from gpufleet.store import ledger, tenancy
from gpufleet.store import schema as t

CLOSED, REOPENED = "closed", "reopened"


def days_of(month: str) -> tuple[date, date]:
    """First day, and the day after the last. Raises Invalid for a text that is no month."""
    try:
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        first = None
    if first is None or f"{first:%Y-%m}" != month:
        raise Invalid(f"'{month[:40]}' is not a month; write it as 2026-03.")
    return first, first + timedelta(days=calendar.monthrange(first.year, first.month)[1])


def statement_of(fleet: Fleet, month: str, until: date | None = None) -> Statement:
    """The month's settled days (before `until`), with its standing. Raises Invalid where none is settled."""
    first, last = days_of(month)
    last = min(last, until) if until else last
    with fleet.database.read() as connection:
        rates = rates_now(fleet, connection)
        rows = [row for row in ledger.days_between(connection, first.isoformat(), last.isoformat())]
        if not rows:
            raise Invalid(
                f"No day of {month} is settled: run chargeback_nightly, or gpufleet settle-day, for its days."
            )
        found = dealt(summed(stored.charges(connection, first, last)), rates.decimals)
    return _statement(found, rates, first, rows)


def _statement(found: Dealt, rates: Rates, first: date, rows: list[Any]) -> Statement:
    standing = min((Standing(row.state) for row in rows), key=list(Standing).index)
    return Statement(
        currency=rates.currency,
        decimals=rates.decimals,
        begin=first,
        end=date.fromisoformat(rows[-1].day) + timedelta(days=1),
        standing=standing,
        revision=max(row.revision for row in rows),
        made_at=max(row.published_at for row in rows).astimezone(UTC),
        rows=found.rows,
        idle_hours=found.idle_hours,
        idle_cost=found.idle_cost,
        unused_hours=found.unused_hours,
        unused_cost=found.unused_cost,
    )


# ------------------------------------------------------------------ closing


def close_month(fleet: Fleet, month: str, principal: Principal) -> dict[str, Any]:
    """Every day settled, then nothing in it changes any more. Closed twice is once.

    Raises Invalid where the month is not over, or a day of it is not settled; Forbidden for who is no admin.
    """
    first, last = days_of(month)
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        check_platform(tenancy.teams(connection), principal, "close a month")
        known = stored.month(connection, month)
        if known is not None and known.state == CLOSED:
            return month_view(known)
        rates = rates_now(fleet, connection)
        _refuse_open(connection, month, first, last, rates, now)
        rows = tuple(stored.charges(connection, first, last))
        sealed = digest(rows)
        values = {
            "state": CLOSED,
            "closed_at": now,
            "closed_by": principal.login,
            "revision": ledger.ledger_revision(connection),
            "currency": rates.currency,
            "total_nano": sum(c.cost_nano for c in rows),
            "digest": sealed,
            "history": [] if known is None else [*known.history, _past(known)],
        }
        days = t.day_status.c.day
        connection.execute(
            update(t.day_status)
            .where(days >= first.isoformat(), days < last.isoformat())
            .values(state=Standing.CLOSED.value)
        )
        stored.put_month(connection, month, **values)
        ledger.audit(connection, now, principal.login, "close-month", month, sealed)
        return month_view(stored.month(connection, month))


def _refuse_open(connection: Connection, month: str, first: date, last: date, rates: Rates, now: datetime) -> None:
    if first_instant(last, rates.timezone) > int(now.timestamp() * 1_000_000):
        raise Invalid(f"{month} is not over: it can be closed from {last} ({rates.timezone.key}) on.")
    settled = {row.day for row in ledger.days_between(connection, first.isoformat(), last.isoformat())}
    for n in range((last - first).days):
        day = (first + timedelta(days=n)).isoformat()
        if day not in settled:
            raise Invalid(f"{month} cannot be closed: {day} is not settled; run chargeback_nightly for it first.")


def reopen_month(fleet: Fleet, month: str, why: str, principal: Principal) -> dict[str, Any]:
    """The logged exception: its days may be settled again. Needs an admin and a reason; the old digest is kept."""
    days_of(month)
    if not why.strip():
        raise Invalid("a month is only opened again for a reason: say it with --why.")
    now = fleet.clock.now()
    first, last = days_of(month)
    with fleet.database.write() as connection:
        check_platform(tenancy.teams(connection), principal, "open a closed month")
        known = stored.month(connection, month)
        if known is None or known.state != CLOSED:
            raise Invalid(f"{month} is not closed.")
        stored.put_month(connection, month, state=REOPENED)
        days = t.day_status.c.day
        connection.execute(
            update(t.day_status)
            .where(days >= first.isoformat(), days < last.isoformat())
            .values(state=Standing.PROVISIONAL.value)
        )
        ledger.audit(connection, now, principal.login, "reopen-month", month, f"{known.digest}: {why.strip()[:200]}")
        return month_view(stored.month(connection, month))


def verify_month(fleet: Fleet, month: str) -> dict[str, Any]:
    """Compute the digest anew. Raises Invalid where it is another than it was closed with, or nothing is closed."""
    first, last = days_of(month)
    with fleet.database.read() as connection:
        known = stored.month(connection, month)
        if known is None or known.state != CLOSED:
            raise Invalid(f"{month} is not closed.")
        found = digest(stored.charges(connection, first, last))
    if found != known.digest:
        raise Invalid(
            f"{month} is not what it was closed as: its digest is {found}, it was closed with {known.digest}."
        )
    return month_view(known)


def month_view(row: Any) -> dict[str, Any]:
    return {
        "month": row.month,
        "state": row.state,
        "closed_at": row.closed_at.isoformat(),
        "closed_by": row.closed_by,
        "currency": row.currency,
        "total_nano": row.total_nano,
        "digest": row.digest,
        "closed_before": list(row.history),
    }


def _past(row: Any) -> dict[str, Any]:
    return {"closed_at": row.closed_at.isoformat(), "closed_by": row.closed_by, "digest": row.digest}


# ------------------------------------------------------------------ corrections


def corrections_on(connection: Connection, known: Facts, day: date) -> Iterator[Charge]:
    """What closed months should have cost by now, booked on this day, the first of its month. A second run gives the same."""
    for row in stored.months(connection):
        first, last = days_of(row.month)
        if row.state != CLOSED or day < last:
            continue
        booked = [*stored.charges(connection, first, last)]
        booked += (c for c in stored.corrections_of(connection, row.month) if c.day != day)
        yield from corrections(_now(known, first, last), booked, row.month, day)


def _now(known: Facts, first: date, last: date) -> Iterator[Charge]:
    for n in range((last - first).days):
        yield from itemised(known.events, known.rates, first + timedelta(days=n))[1]


def rates_now(fleet: Fleet, connection: Connection) -> Rates:
    told = ledger.rates(connection)
    if not told:
        raise Invalid(f"No rates are configured: write {fleet.home / 'rates.yaml'} and apply it.")
    return rates_of(told, f"{fleet.home / 'rates.yaml'} (as applied)")
