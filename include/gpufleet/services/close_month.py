"""Months: days become estimated, a month is closed, re-opened, verified; what comes late is booked in the open month.

After a close the database itself refuses every change of the month's days. The close keeps a sha256 over every charge
of the month; a re-opening keeps it too, with who did it and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, Row

from gpufleet.chargeback.buckets import Buckets
from gpufleet.chargeback.canonical import seal
from gpufleet.chargeback.corrections import corrections
from gpufleet.chargeback.days import EPOCH, first_instant
from gpufleet.chargeback.finance import SETTLE_DAYS, Finance
from gpufleet.chargeback.losses import credits_for
from gpufleet.errors import Forbidden, Invalid, NotFound
from gpufleet.formats.rates import rates_of
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.statement import Standing
from gpufleet.model.tenancy import Principal, Role
from gpufleet.services.fleet import Fleet
from gpufleet.services.metered_charges import metered, settle_again
from gpufleet.services.month_charges import Month, credits, finance, losses, month_charges, month_named
from gpufleet.services.rights import is_platform, role_in
from gpufleet.store import charges as stored
from gpufleet.store import ledger, months, tenancy

NIGHT: Final = Principal("nightly", is_admin=True)
"""Who closes a month that nobody closed by hand."""


def today(fleet: Fleet) -> date:
    """By the fleet's clock, in the zone of the rates. Raises Invalid where no rates are configured."""
    with fleet.database.read() as connection:
        told = ledger.rates(connection)
    if not told:
        raise Invalid(f"No rates are configured: write {fleet.home / 'rates.yaml'} and apply it.")
    return fleet.clock.now().astimezone(rates_of(told, "rates").timezone).date()


def estimate_days(fleet: Fleet) -> list[str]:
    """Settle provisional days that are two days old once more, with what came late; returns them. Safe to repeat."""
    until = today(fleet) - timedelta(days=SETTLE_DAYS - 1)
    with fleet.database.read() as connection:
        states = months.day_states(connection, date.min, until)
    late = [day for day, state in states.items() if state == Standing.PROVISIONAL]
    settle_again(fleet, [date.fromisoformat(day) for day in late], Standing.ESTIMATED)
    return late


def close_month(fleet: Fleet, text: str, principal: Principal) -> dict[str, Any]:
    """Settle each day a last time and close the month; one that is closed stays as it is.

    Raises Forbidden for who is neither of finance nor of the platform, and Invalid before its day.
    """
    month, policy = month_named(text), finance(fleet)
    first = _first_close(month, policy)
    with fleet.database.read() as connection:
        require_finance(connection, principal)
        before = months.standing_close(connection, month.id)
    if before is not None:
        return told(before)
    began = fleet.clock.now()  # what comes while the days are settled is looked for by the corrections
    if today(fleet) < first:
        raise Invalid(f"{month.id} may be closed from {first} on: until then clouds may still change their invoices.")
    settle_again(fleet, month.days, Standing.ESTIMATED)
    with fleet.database.write() as connection:
        if (before := months.standing_close(connection, month.id)) is None:
            _seal(connection, fleet, month, principal, began)
        closed = before or months.standing_close(connection, month.id)
        assert closed is not None
        return told(closed)


def reopen_month(fleet: Fleet, text: str, principal: Principal, why: str) -> None:
    """Open a closed month again. Raises Forbidden for who is not of the platform, Invalid without a reason or a close."""
    month, now = month_named(text), fleet.clock.now()
    if not why.strip():
        raise Invalid("A month is re-opened for a reason: say it with --why.")
    with fleet.database.write() as connection:
        if not is_platform(tenancy.teams(connection), principal):
            raise Forbidden(f"{principal.login} may not re-open a month; ask the platform.")
        close = months.standing_close(connection, month.id)
        if close is None:
            raise Invalid(f"{month.id} is not closed, so it cannot be re-opened.")
        months.reopen(connection, month.id, now, principal.login, why)
        state = Standing.RECONCILED if months.reconciliations(connection, month.id) else Standing.ESTIMATED
        months.set_standing(connection, [d.isoformat() for d in month.days], state)
        ledger.audit(connection, now, principal.login, "reopen-month", month.id, f"{why} (was sha256 {close.sha256})")


def verify_month(fleet: Fleet, text: str) -> dict[str, Any]:
    """The close that stands, beside the hash of what is stored now. Raises NotFound for a month that is not closed."""
    month = month_named(text)
    with fleet.database.read() as connection:
        close = months.standing_close(connection, month.id)
        if close is None:
            raise NotFound(f"{month.id} is not closed: there is no hash to compare with.")
        now = seal(month_charges(connection, month))
    return {**told(close), "now": now.sha256, "holds": (now.sha256, now.rows) == (close.sha256, close.rows)}


def close_due_months(fleet: Fleet) -> list[str]:
    """Close each month that was never closed, whose day has come and whose every day was published, the oldest first.

    Days before the ledger begins need not be: a fleet may start within a month. So months that are still being
    published day by day are left alone. A month that a person opened again is closed by a person.
    """
    now, policy = today(fleet), finance(fleet)
    with fleet.database.read() as connection:
        states, begins = months.day_states(connection, date.min, now), ledger.first_day(connection)
        named = sorted({day[:7] for day in states})
        never = [month_named(name) for name in named if not months.closes(connection, name)]
        never = [m for m in never if all(d.isoformat() in states or d.isoformat() < begins for d in m.days)]
    due = [month.id for month in never if _first_close(month, policy) <= now]
    for name in due:
        close_month(fleet, name, NIGHT)
    return due


def correct_closed_months(fleet: Fleet) -> list[Charge]:
    """Book today what the ledger now says about closed months beyond what was said; returns what was booked.

    The ledger is read without a lock; what comes meanwhile is for the next night. Only months that something was heard
    about since their close are looked at, and by the rates they were closed with: a changed price list corrects nothing.
    """
    share, day = finance(fleet).credit_share, today(fleet)
    with fleet.database.read() as connection:
        closed = (months.standing_close(connection, name) for name in months.closed_months(connection))
        asked = [close for close in closed if close is not None and _may_differ(connection, close)]
        lost = losses(connection)
    known = {close.month: metered(fleet, month_named(close.month).days, close.rates) for close in asked}
    found: list[Charge] = []
    with fleet.database.write() as connection:
        still = set(months.closed_months(connection))
        for month in (month_named(name) for name in known if name in still):
            charges = known[month.id]
            given = credits_for(_of(charges, month), lost, share) if share else ()
            found += _correct(connection, month, chain(_of(charges, month), given), day)
    return found


def _of(known: Buckets, month: Month) -> Iterator[Charge]:
    for day in month.days:
        yield from known.take(day)


def _may_differ(connection: Connection, close: Row[Any]) -> bool:
    """Whether an event of its time came after the close, or something in it had not been seen to end."""
    month, zone = month_named(close.month), rates_of(close.rates, "rates").timezone
    end = EPOCH + timedelta(microseconds=first_instant(month.end, zone))
    late = ledger.heard_since(connection, close.closed_at, end)
    return late or stored.has_estimated(connection, month.begin, month.end)


def _correct(connection: Connection, month: Month, known: Iterable[Charge], day: date) -> list[Charge]:
    about = list(months.booked_about(connection, month.id))
    late = list(corrections(month.id, _as_closed(connection, month), about, known, day))
    months.book(connection, f"correction/{month.id}", late, again=False)
    return late


def told(close: Row[Any]) -> dict[str, Any]:
    """A close as people read it."""
    return {
        "month": close.month,
        "version": close.version,
        "closed_at": close.closed_at.isoformat(),
        "closed_by": close.closed_by,
        "revision": close.revision,
        "currency": close.currency,
        "total_nano": close.total_nano,
        "rows": close.rows,
        "sha256": close.sha256,
    }


def require_finance(connection: Connection, principal: Principal) -> None:
    """Raises Forbidden for who is neither of finance nor of the platform."""
    teams = tenancy.teams(connection)
    if not is_platform(teams, principal) and not any(role_in(team, principal) is Role.FINANCE for team in teams):
        raise Forbidden(f"{principal.login} may not change the books; ask finance or the platform.")


def _first_close(month: Month, policy: Finance) -> date:
    return month.end + timedelta(days=policy.close_on - 1)


def _seal(connection: Connection, fleet: Fleet, month: Month, principal: Principal, now: datetime) -> None:
    """Credits are booked, days are closed, and then the close is written: after it nothing of the month can be."""
    given = credits(connection, month, finance(fleet))
    months.book(connection, f"credit/{month.id}", given, again=True)
    sealed = seal(month_charges(connection, month))
    months.set_standing(connection, [d.isoformat() for d in month.days], Standing.CLOSED)
    rates = ledger.rates(connection)
    months.put_close(
        connection,
        month=month.id,
        version=len(months.closes(connection, month.id)) + 1,
        closed_at=now,
        closed_by=principal.login,
        revision=ledger.ledger_revision(connection),
        currency=rates["currency"],
        rates=rates,
        sha256=sealed.sha256,
        rows=sealed.rows,
        total_nano=sealed.total_nano,
        why="",
    )
    ledger.audit(connection, now, principal.login, "close-month", month.id, f"sha256 {sealed.sha256}")


def _as_closed(connection: Connection, month: Month) -> list[Charge]:
    """What the month itself was closed with: not corrections of earlier months, nor what an invoice added."""
    given = months.booked(connection, month.begin, month.end)
    nights = stored.charges(connection, month.begin, month.end)
    return [*nights, *(c for c in given if c.kind is ChargeKind.CREDIT and not c.corrects)]
