"""`gpufleet bill`: what the use of some days costs, from files or from the fleet's ledger.

Files need no fleet: nothing heavy is imported for them.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.chargeback import Bill, bill
from gpufleet.errors import Invalid
from gpufleet.formats.bill import bill_lines, to_json
from gpufleet.formats.events import load_events
from gpufleet.formats.rates import day, load_rates

if TYPE_CHECKING:
    from gpufleet.services.fleet import Fleet


def bill_files(events: Path, rates: Path, start: str, end: str, *, by: str, exact: bool, as_json: bool) -> int:
    """Bill a file of events by a file of rates; raises Invalid that names file, line and key."""
    first, last, grouping = _asked(start, end, by)
    with _no_collector():
        told, priced = load_events(events), load_rates(rates)
        found = bill(told, priced, first, last, by=grouping, exact=exact)
    _show(found, as_json=as_json)
    return 0


def bill_fleet(fleet: Fleet, start: str, end: str, *, by: str, exact: bool, as_json: bool) -> None:
    """Bill the fleet's ledger by the fleet's rates."""
    from gpufleet.services.ledger_facts import facts

    first, last, grouping = _asked(start, end, by)
    known = facts(fleet)
    _show(bill(known.events, known.rates, first, last, by=grouping, exact=exact), as_json=as_json)


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
    return _day("--from", start), _day("--to", end), tuple(by.split(","))


def _day(option: str, text: str) -> date:
    try:
        return day(text)
    except Invalid as why:
        raise Invalid(f"{option}: {why}") from None


def _show(found: Bill, *, as_json: bool) -> None:
    print(json.dumps(to_json(found), indent=2) if as_json else "\n".join(bill_lines(found)))
