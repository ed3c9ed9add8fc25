"""Meters, prices, checks and publishes one finance day as provisional; the same ledger gives the same bytes.

The ledger is read at one revision and the bill made without holding a lock; the statement is written in one short
transaction. A second run replaces the provisional statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from gpufleet.chargeback import Bill
from gpufleet.chargeback.billing import itemised
from gpufleet.chargeback.conservation import faults
from gpufleet.chargeback.days import first_instant, micros
from gpufleet.chargeback.rates import Rates
from gpufleet.errors import Invalid, Permanent
from gpufleet.exports.statement_csv import write_statement
from gpufleet.formats.bill import to_json
from gpufleet.formats.events import event_of_row
from gpufleet.formats.rates import day as day_of
from gpufleet.formats.rates import rates_of
from gpufleet.model.charge import Charge
from gpufleet.model.usage import UsageEvent
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger, world
from gpufleet.store.charges import put_charges

PROVISIONAL: Final = "provisional"
ALL_TIME: Final = datetime.max.replace(tzinfo=UTC)
"""Rule 4: what lies after a day can still say something about it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a bill is made of, as the ledger has it at one revision."""

    events: list[UsageEvent]
    rates: Rates
    revision: int
    until: datetime
    """The latest instant that anything is known of, by the clusters' clocks, the events and our own clock."""

    def has_begun(self, day: date) -> bool:
        return first_instant(day, self.rates.timezone) <= micros(self.until)


def facts(fleet: Fleet) -> Facts:
    """Raises Invalid that names the rates file where no rates are configured."""
    file = fleet.home / "rates.yaml"
    with fleet.database.read() as connection:
        stored = ledger.rates(connection)
        if not stored:
            raise Invalid(f"No rates are configured: write {file} and apply it with gpufleet doctor --migrate.")
        rows = ledger.usage_until(connection, ALL_TIME)
        revision = ledger.ledger_revision(connection)
        clocks = [c.cluster_time for c in world.clusters(connection).values()]
    events = [event_of_row(row) for row in rows]
    until = max([fleet.clock.now(), *clocks, *(e.at for e in events)])
    return Facts(events, rates_of(stored, f"{file} (as applied)"), revision, until)


def settle_day(fleet: Fleet, day: str) -> dict[str, Any]:
    """Publish the day; answers with the bill, its state, its CSV file and the ledger's revision.

    Raises Invalid for a text that is no day, and Permanent where the bill does not add up: then nothing is published.
    """
    first = day_of(str(day))  # a DAG run without a partition brings None
    known = facts(fleet)
    # use without an end runs on (rule 16), but not into a day that has not begun: nobody knows anything of it
    events = known.events if known.has_begun(first) else []
    found, charges = itemised(events, known.rates, first)
    for fault in faults(found, events, known.rates):
        raise Permanent(f"The bill of {day} does not add up, nothing was published: {fault}.")
    told = to_json(found)
    answer = {"day": day, "state": PROVISIONAL, **{key: told[key] for key in told if key not in ("from", "to")}}
    if not _publish(fleet, day, found, answer, known.revision, charges):
        return settle_day(fleet, day)  # the ledger grew and somebody was faster: bill what is known now
    path = fleet.home / "exports" / f"statement-{day}.csv"
    write_statement(path, answer)
    return {**answer, "csv": str(path), "revision": known.revision}


def _publish(
    fleet: Fleet, day: str, found: Bill, answer: dict[str, Any], revision: int, charges: Iterable[Charge]
) -> bool:
    """Write the statement and its charges; False where one of a later revision is there already."""
    nano = 10 ** (9 - found.decimals)
    lines = [
        {
            "team": line.team,
            "project": line.project,
            "gpu_hours": told["gpu_hours"],
            "total_nano": line.total * nano,
            "facts": told,
        }
        for line, told in zip(found.lines, answer["lines"], strict=True)
    ]
    with fleet.database.write() as connection:
        before = ledger.day(connection, day)
        if before is not None and before.state != PROVISIONAL:
            raise Invalid(f"{day} is {before.state}: its statement stands, later facts become corrections.")
        if before is not None and before.revision > revision:
            return False
        ledger.put_day(
            connection,
            day,
            lines,
            state=PROVISIONAL,
            revision=revision,
            currency=found.currency,
            total_nano=found.total * nano,
            published_at=fleet.clock.now(),
            answer=answer,
        )
        put_charges(connection, found.start, charges)
    return True
