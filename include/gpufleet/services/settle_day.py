"""Meters, prices, checks and publishes one finance day as provisional; the same ledger gives the same bytes.

The ledger is read at one revision and the bill made without holding a lock; the statement is written in one short
transaction. A second run replaces the provisional statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

from gpufleet.chargeback import Bill
from gpufleet.chargeback.conservation import faults
from gpufleet.errors import Invalid, Permanent
from gpufleet.exports.statement_csv import write_statement
from gpufleet.formats.bill import to_json
from gpufleet.formats.rates import day as day_of
from gpufleet.model.charge import Charge
from gpufleet.model.statement import Standing
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import Facts, facts
from gpufleet.store import ledger
from gpufleet.store.charges import put_charges

PROVISIONAL: Final = Standing.PROVISIONAL.value


def settle_day(fleet: Fleet, day: str, *, standing: str = PROVISIONAL) -> dict[str, Any]:
    """Publish the day; answers with the bill, its state, its CSV file and the ledger's revision.

    A day that stands higher already keeps its standing; of a closed month the statement that stands is the answer. Raises
    Invalid for a text that is no day, and Permanent where the bill does not add up: then nothing is published.
    """
    first = day_of(str(day))  # a DAG run without a partition brings None
    stands = _closed(fleet, str(day))
    return stands or settle_days(fleet, [first], standing=standing)[0]


def settle_days(fleet: Fleet, days: Sequence[date], *, standing: str) -> list[dict[str, Any]]:
    """Publish several days of open months from one reading of the ledger; answers and errors as for one."""
    if not days:
        return []
    known = facts(fleet, days)
    return [_settle(fleet, known, day, standing) for day in days]


def _settle(fleet: Fleet, known: Facts, first: date, standing: str) -> dict[str, Any]:
    day = first.isoformat()
    found, charges, witnesses = known.itemised(first)
    for fault in faults(found, witnesses, known.rates):
        raise Permanent(f"The bill of {day} does not add up, nothing was published: {fault}.")
    told = to_json(found)
    answer = {"day": day, "state": standing, **{key: told[key] for key in told if key not in ("from", "to")}}
    if not _publish(fleet, day, found, answer, known.revision, charges):
        # the ledger grew and somebody was faster: bill what is known now
        return settle_day(fleet, day, standing=standing)
    path = fleet.home / "exports" / f"statement-{day}.csv"
    write_statement(path, answer)
    return {**answer, "csv": str(path), "revision": known.revision}


def _closed(fleet: Fleet, day: str) -> dict[str, Any] | None:
    """The answer of a day whose month is closed."""
    with fleet.database.read() as connection:
        row = ledger.day(connection, day)
    if row is None or row.state != Standing.CLOSED:
        return None
    csv = fleet.home / "exports" / f"statement-{day}.csv"
    return {**row.answer, "state": row.state, "csv": str(csv), "revision": row.revision}


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
        if before is not None and before.state == Standing.CLOSED:
            raise Invalid(f"{day} is {before.state}: its statement stands, later facts become corrections.")
        if before is not None:
            answer["state"] = max(Standing(answer["state"]), Standing(before.state), key=list(Standing).index).value
        if before is not None and before.revision > revision:
            return False
        ledger.put_day(
            connection,
            day,
            lines,
            state=answer["state"],
            revision=revision,
            currency=found.currency,
            total_nano=found.total * nano,
            published_at=fleet.clock.now(),
            answer=answer,
        )
        put_charges(connection, found.start, charges)
    return True
