"""`gpufleet bill`: what the use of some days costs, from files or from the fleet's ledger.

Files need no fleet: nothing heavy is imported for them.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.chargeback import Bill
from gpufleet.chargeback.billing import bill_of, check, days_of, settled
from gpufleet.chargeback.buckets import InMemory
from gpufleet.errors import Invalid
from gpufleet.formats.bill import bill_lines, to_json
from gpufleet.formats.events import load_events
from gpufleet.formats.rates import day, load_rates

if TYPE_CHECKING:
    from gpufleet.model.charge import Charge
    from gpufleet.services.fleet import Fleet


def bill_files(
    events: Path, rates: Path, start: str, end: str, *, by: str, exact: bool, as_json: bool, charges: Path | None = None
) -> int:
    """Bill a file of events by a file of rates; raises Invalid that names file, line and key."""
    first, last, grouping = _asked(start, end, by)
    with _no_collector():
        made = settled(load_events(events), load_rates(rates), first, last)
        found = bill_of(made, by=grouping, exact=exact)
        if charges is not None:
            _write_charges(charges, lambda day: made.itemised(day, InMemory())[1], days_of(first, last))
    _show(found, as_json=as_json)
    return 0


def bill_fleet(
    fleet: Fleet, start: str, end: str, *, by: str, exact: bool, as_json: bool, charges: Path | None = None
) -> None:
    """Bill the fleet's ledger by the fleet's rates."""
    from gpufleet.services.ledger_facts import facts

    first, last, grouping = _asked(start, end, by)
    known = facts(fleet, days_of(first, last))
    if charges is not None:
        _write_charges(charges, lambda day: known.itemised(day)[1], days_of(first, last))
    _show(bill_of(known.nights, by=grouping, exact=exact), as_json=as_json)


def _write_charges(path: Path, charges_of: Callable[[date], Iterator[Charge]], days: Sequence[date]) -> None:
    """Each day's charges, by day, team, project, job and id; raises Invalid where the file cannot be written."""
    from gpufleet.exports.charges_csv import write_charges

    found = (c for d in days for c in sorted(charges_of(d), key=lambda c: (c.team, c.project, c.job, c.id)))
    try:
        with path.open("w", newline="") as out:
            write_charges(out, found)
    except OSError as why:
        raise Invalid(f"{path} cannot be written: {why.strerror}.") from None


@contextmanager
def _no_collector() -> Iterator[None]:
    """Looking for cycles among a hundred thousand facts that all stay would take a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _asked(start: str, end: str, by: str) -> tuple[date, date, tuple[str, ...]]:
    first, last, grouping = _day("--from", start), _day("--to", end), tuple(by.split(","))
    check(first, last, grouping)
    return first, last, grouping


def _day(option: str, text: str) -> date:
    try:
        return day(text)
    except Invalid as why:
        raise Invalid(f"{option}: {why}") from None


def _show(found: Bill, *, as_json: bool) -> None:
    print(json.dumps(to_json(found), indent=2) if as_json else "\n".join(bill_lines(found)))
