"""The charges that the ledger makes of a day today, and a day settled with them.

The one place where months meet the metering: each line of the day's exact bill is a charge for each of its columns, so
the charges of a day sum to its bill to the nano-unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from gpufleet.chargeback import Bill, BillLine, bill
from gpufleet.chargeback.days import EPOCH, first_instant
from gpufleet.chargeback.rates import PLATFORM
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.services.fleet import Fleet
from gpufleet.services.settle_day import Facts, facts, settle_day
from gpufleet.store import months
from gpufleet.store.charges import put_charges


def metered(known: Facts, day: date) -> Iterator[Charge]:
    """What the facts make of the day, by id."""
    events = known.events if known.has_begun(day) else []
    found = bill(events, known.rates, day, day + timedelta(days=1), exact=True)
    begin, end = (
        (EPOCH + timedelta(microseconds=first_instant(d, known.rates.timezone))).astimezone(UTC)
        for d in (day, day + timedelta(days=1))
    )
    yield from sorted((c for c in _charges(found, day, begin, end) if c.cost_nano or c.hours_nano), key=lambda c: c.id)


def settle_again(fleet: Fleet, day: date, standing: str) -> None:
    """Publish the day with what is known now, with its charges, and give it this standing.

    Raises Invalid for a day of a closed month.
    """
    text = day.isoformat()
    with fleet.database.write() as connection:
        if months.standing_close(connection, text[:7]) is not None:
            raise Invalid(f"{text} is closed with its month: what comes late becomes a correction.")
        months.set_standing(connection, [text], "provisional")
    settle_day(fleet, text)
    charges = list(metered(facts(fleet), day))
    with fleet.database.write() as connection:
        put_charges(connection, day, charges)
        months.set_standing(connection, [text], standing)


def _charges(found: Bill, day: date, begin: datetime, end: datetime) -> Iterator[Charge]:
    def charge(line: BillLine, kind: ChargeKind, cost: int, hours: int = 0, quota: str = "") -> Charge:
        name = "/".join((line.team, line.project or "", kind.value, quota))
        return Charge(
            id=name,
            day=day,
            kind=kind,
            begin=begin,
            end=end,
            team=line.team,
            project=line.project or "",
            cost_nano=cost,
            billed_nano=cost,
            hours_nano=hours,
            quota=quota,
        )

    for line in found.lines:
        yield charge(line, ChargeKind.USE, line.usage, line.guaranteed, "guaranteed")
        yield charge(line, ChargeKind.USE, 0, line.over_quota, "over-quota")
        yield charge(line, ChargeKind.IDLE_SHARE, line.idle)
        yield charge(line, ChargeKind.COMMITTED_USE, line.commitment)
        yield charge(line, ChargeKind.SHARED, line.shared)
    platform = BillLine(PLATFORM, "")
    yield charge(platform, ChargeKind.IDLE, found.idle_cost, found.idle_hours)
    yield charge(platform, ChargeKind.UNUSED, found.unused_cost, found.unused_hours)
