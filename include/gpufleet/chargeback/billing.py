"""The bill, from beginning to end: settle the facts, cut the window, meter, price, share, round."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from gpufleet.chargeback.buckets import InMemory
from gpufleet.chargeback.evidence import Quarantine, by_node
from gpufleet.chargeback.nights import Nights, nights
from gpufleet.chargeback.rates import Rates
from gpufleet.chargeback.statement import Bill, by_team, state
from gpufleet.errors import Invalid
from gpufleet.model.usage import UsageEvent

TEAM_AND_PROJECT = ("team", "project")
TEAM = ("team",)


def bill(
    events: Iterable[UsageEvent],
    rates: Rates,
    start: date,
    end: date,
    *,
    by: tuple[str, ...] = TEAM_AND_PROJECT,
    exact: bool = False,
) -> Bill:
    """What the days [start, end) cost whom; `exact` in nano-units. Raises Invalid on an empty window or another `by`."""
    check(start, end, by)
    return bill_of(settled(events, rates, start, end), by=by, exact=exact)


def check(start: date, end: date, by: tuple[str, ...]) -> None:
    """Raises Invalid on an empty window or another `by` than the two there are."""
    if start >= end:
        raise Invalid(f"--from {start} must be before --to {end}; --to is the day after the last.")
    if by not in (TEAM_AND_PROJECT, TEAM):
        raise Invalid(f"--by '{','.join(by)}' is not known; it is team,project or team.")


def days_of(start: date, end: date) -> tuple[date, ...]:
    """Those of [start, end)."""
    return tuple(start + timedelta(days=n) for n in range((end - start).days))


def settled(events: Iterable[UsageEvent], rates: Rates, start: date, end: date) -> Nights:
    """The days of [start, end) from events that fit into memory, in any order."""
    quarantine = Quarantine()
    return nights(by_node(events, quarantine), rates, days_of(start, end), InMemory(), quarantine)


def bill_of(made: Nights, *, by: tuple[str, ...] = TEAM_AND_PROJECT, exact: bool = False) -> Bill:
    """One bill over all the days."""
    account, aside = made.account()
    start, end = made.window[0].date, made.window[-1].date + timedelta(days=1)
    found = state(account, made.rates, start, end, exact=exact, quarantined=aside.sorted())
    return by_team(found) if by == TEAM else found
