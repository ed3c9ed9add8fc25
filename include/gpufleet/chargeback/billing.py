"""The bill, from beginning to end: settle the facts, cut the window, meter, price, share, round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from gpufleet.chargeback.amounts import changes
from gpufleet.chargeback.charges import charges
from gpufleet.chargeback.claims import settle_claims
from gpufleet.chargeback.days import days
from gpufleet.chargeback.evidence import Quarantine, weigh
from gpufleet.chargeback.holdings import stretches
from gpufleet.chargeback.nodes import lives
from gpufleet.chargeback.pricing import phases
from gpufleet.chargeback.rates import Rates
from gpufleet.chargeback.sharing import Account, add_day
from gpufleet.chargeback.statement import Bill, by_team, state
from gpufleet.chargeback.sweep import Swept, sweep
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge
from gpufleet.model.usage import UsageEvent

TEAM_AND_PROJECT = ("team", "project")
TEAM = ("team",)


def bill(
    events: Sequence[UsageEvent],
    rates: Rates,
    start: date,
    end: date,
    *,
    by: tuple[str, ...] = TEAM_AND_PROJECT,
    exact: bool = False,
) -> Bill:
    """What the days [start, end) cost whom; `exact` in nano-units. Raises Invalid on an empty window or another `by`."""
    if start >= end:
        raise Invalid(f"--from {start} must be before --to {end}; --to is the day after the last.")
    if by not in (TEAM_AND_PROJECT, TEAM):
        raise Invalid(f"--by '{','.join(by)}' is not known; it is team,project or team.")
    quarantine = Quarantine()
    account = account_of(events, rates, start, end, quarantine)
    found = state(account, rates, start, end, exact=exact, quarantined=quarantine.sorted())
    return by_team(found) if by == TEAM else found


def itemised(events: Sequence[UsageEvent], rates: Rates, day: date) -> tuple[Bill, Iterator[Charge]]:
    """The bill of one day, and the charges it is made of."""
    quarantine, end = Quarantine(), day + timedelta(days=1)
    account, swept = _settled(events, rates, day, end, quarantine, detailed=True)
    aside = quarantine.sorted()
    exact = state(account, rates, day, end, exact=True, quarantined=aside)
    return state(account, rates, day, end, exact=False, quarantined=aside), charges(account, swept, rates, exact)


def account_of(events: Sequence[UsageEvent], rates: Rates, start: date, end: date, quarantine: Quarantine) -> Account:
    """The exact bill, before any rounding."""
    return _settled(events, rates, start, end, quarantine, detailed=False)[0]


def _settled(
    events: Sequence[UsageEvent], rates: Rates, start: date, end: date, quarantine: Quarantine, *, detailed: bool
) -> tuple[Account, Swept]:
    # rule 4: the facts of the whole file first, then the window
    evidence = weigh(events, quarantine)
    nodes = lives(evidence, quarantine)
    told = stretches(evidence, nodes, rates.mig_share, quarantine)
    accepted = settle_claims(told, evidence.life, quarantine)
    window = days(start, end, rates.timezone)
    changed = list(changes(accepted, window[0].begin, window[-1].end))
    swept = sweep(window, changed, nodes, rates, quarantine, detailed=detailed)
    account, terms = Account(), [phases(c) for c in rates.commitments]
    for tally in swept.tallies:
        add_day(account, tally, swept.scale, rates, terms)
    return account, swept
