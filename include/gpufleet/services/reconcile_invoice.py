"""An invoice held against the charges of its month; what differs is booked, so that the books agree with it.

The same file again changes nothing: a provider's adjustments of a month are replaced as a whole.
"""

from __future__ import annotations

from datetime import UTC, date, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from gpufleet.chargeback.days import EPOCH, days
from gpufleet.chargeback.reconciliation import Books, Compared, Reconciliation, Verdict, reconcile
from gpufleet.errors import Invalid
from gpufleet.formats.invoices import READERS, load_invoice
from gpufleet.formats.rates import rates_of
from gpufleet.model.statement import Standing
from gpufleet.model.tenancy import Principal
from gpufleet.services.close_month import require_finance
from gpufleet.services.fleet import Fleet
from gpufleet.services.month_charges import Month, finance, month_named
from gpufleet.store import charges as stored
from gpufleet.store import ledger, months, world


def reconcile_invoice(
    fleet: Fleet, file: Path, provider: str, principal: Principal, month: str | None = None
) -> dict[str, Any]:
    """The report. Without `month` the invoice must speak of one alone.

    Looks at the days from the invoice's first to its last, so an invoice to date says nothing of the days to come.
    Raises Forbidden, and Invalid for a file that cannot be read, another currency, or a month that is closed.
    """
    with fleet.database.read() as connection:
        require_finance(connection, principal)
        told = ledger.rates(connection)
        zone = rates_of(told, "rates").timezone if told else ZoneInfo("UTC")
    covered = {line.start.astimezone(zone).date() for line in load_invoice(file, provider)}
    asked = month_named(month or _only_month(file, covered))
    inside = [day for day in covered if asked.begin <= day < asked.end]
    if not inside:
        raise Invalid(f"{file} has no line of {asked.id}: name its month with --month.")
    with fleet.database.write() as connection:
        if months.standing_close(connection, asked.id) is not None:
            raise Invalid(f"{asked.id} is closed: reconcile before the close, or have the month re-opened.")
        books = _books(connection, fleet, provider, (min(inside), max(inside) + timedelta(days=1)), zone)
        nights = stored.charges(connection, asked.begin, asked.end)
        found = reconcile(nights, load_invoice(file, provider), books)
        return _write_down(connection, fleet, asked, found, principal)


def report_of(found: Reconciliation, month: str) -> dict[str, Any]:
    """As plain values: money as nano-units, machine days that differ one by one."""
    return {
        "month": month,
        "provider": found.provider,
        "currency": found.currency,
        "final": found.is_final,
        "ours_nano": found.ours,
        "theirs_nano": found.theirs,
        "adjusted_nano": sum(c.cost_nano for c in found.adjustments),
        "counts": {verdict.value: len(found.of(verdict)) for verdict in Verdict},
        "beside_nano": {kind.value: amount for kind, amount in found.beside},
        "differences": [_told(c) for c in found.compared if c.verdict is not Verdict.MATCHED],
    }


def _told(one: Compared) -> dict[str, Any]:
    return {
        "machine": one.machine,
        "day": one.day.isoformat(),
        "verdict": one.verdict.value,
        "ours_nano": one.ours,
        "theirs_nano": one.theirs,
        "difference_nano": one.difference,
    }


def _only_month(file: Path, covered: set[date]) -> str:
    found = sorted({day.isoformat()[:7] for day in covered})
    if len(found) != 1:
        raise Invalid(f"{file} speaks of {', '.join(found)}: name one with --month.")
    return found[0]


def _books(connection: Connection, fleet: Fleet, provider: str, span: tuple[date, date], zone: ZoneInfo) -> Books:
    return Books(
        provider,
        str(ledger.rates(connection).get("currency", "")),
        machines={node.name: node.instance for node in world.nodes(connection) if node.instance},
        days={
            day.date: (EPOCH + timedelta(microseconds=day.begin), EPOCH + timedelta(microseconds=day.end))
            for day in days(*span, zone)
        },
        day_of=lambda at: at.astimezone(UTC).astimezone(zone).date(),
        tolerance=finance(fleet).tolerance,
    )


def _write_down(
    connection: Connection, fleet: Fleet, month: Month, found: Reconciliation, principal: Principal
) -> dict[str, Any]:
    now, report = fleet.clock.now(), report_of(found, month.id)
    months.book(connection, f"invoice/{found.provider}/{month.id}", found.adjustments, again=True)
    months.put_reconciliation(connection, month.id, found.provider, now, report)
    ledger.audit(connection, now, principal.login, "reconcile", f"{month.id}/{found.provider}")
    if found.is_final and not _waiting(connection, month):
        days = [c.day.isoformat() for c in found.compared]
        months.set_standing(connection, sorted(set(days)), Standing.RECONCILED)
    return report


def _waiting(connection: Connection, month: Month) -> set[str]:
    """Clouds that the month has charges of and no invoice yet: until theirs is there no day is reconciled."""
    used = {charge.provider for charge in stored.charges(connection, month.begin, month.end)}
    return (used & READERS.keys()) - {row.provider for row in months.reconciliations(connection, month.id)}
