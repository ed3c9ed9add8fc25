"""Our own policy on the recorded market: fed with the rows up to the present tick, never with one that is still to come.

Its forecasts are worth little where zones come and go by chance, and then plain rules do better. So before a job starts the
week before it is replayed: jobs like it, that would have ended by now, under our bets and under the plain rule. The job gets
whichever was cheaper.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from gpufleet.procurement.spot.choice import choose
from gpufleet.procurement.spot.going_rate import GoingRate
from gpufleet.procurement.spot.safety import may_run, may_wait
from gpufleet.procurement.spot.survival import Outlook
from gpufleet.procurement.spot.terms import IDLE, ON_DEMAND, Standing, Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.policies import greedy
from gpufleet.simulation.spot.replay import Decide, replay

DEFINITION: Final = (
    "the cheapest safe bet of visits by expected life, waits and on-demand, with a price on spare time; greedy instead for a job "
    "whose like it would have served cheaper in the week before; safe: whatever happens next, on-demand still meets the deadline"
)
HISTORY: Final = 1008
"""Rows before the start that it has seen: a week."""
FORMER: Final = 600
"""Rows that a job of the week before had seen: all of them lie before the job that is to start."""
EVERY: Final = 36
"""Rows from one job of the week before to the next: six hours."""


class Ours:
    """Our policy on one market for one kind of job; what became of former jobs is worked out once."""

    def __init__(self, market: Market, terms: Terms) -> None:
        self._market, self._terms = market, terms
        self._former: dict[int, tuple[Fraction, Fraction]] = {}

    def job(self, start: int) -> Decide:
        """For the job that starts at this row."""
        if self._plain_was_cheaper(start):
            return _safe(self._terms, greedy(self._market, self._terms))
        return bets(self._market, self._terms, start, HISTORY)

    def _plain_was_cheaper(self, start: int) -> bool:
        """Over all former jobs that began a week ago or later and have ended. Former rows must not be rows to come."""
        ahead = -(-self._terms.deadline // self._terms.tick)
        if start - HISTORY - FORMER < start + ahead - self._market.rows:
            return False
        begins = range(-(-(start - HISTORY) // EVERY) * EVERY, start - ahead + 1, EVERY)
        costs = [self._costs(row) for row in begins]
        return sum(ours for ours, _ in costs) > sum(plain for _, plain in costs)

    def _costs(self, row: int) -> tuple[Fraction, Fraction]:
        """Of a job from this row, under our bets and under the plain rule."""
        if row not in self._former:
            market, terms = self._market, self._terms
            plain = _safe(terms, greedy(market, terms))
            self._former[row] = (
                replay(market, terms, row, bets(market, terms, row, FORMER)).cost,
                replay(market, terms, row, plain).cost,
            )
        return self._former[row]


def bets(market: Market, terms: Terms, start: int, history: int) -> Decide:
    """Our bets for one job. Its history is cut where, the trace going round, it would hold rows that the job will meet."""
    prices = tuple(float(price / market.on_demand) for price in market.spot)
    outlook, rate = Outlook(len(prices)), GoingRate(terms, prices)

    def see(row: int) -> None:
        up = market.up[row % market.rows]
        outlook.see(up)
        rate.see(up)

    ahead = -(-terms.deadline // terms.tick)
    for row in range(start - max(0, min(history, market.rows - ahead)), start):
        see(row)

    def decide(at: Standing) -> int:
        see(start + at.tick)
        return choose(terms, at, outlook, rate)

    return decide


def _safe(terms: Terms, rule: Decide) -> Decide:
    """The rule, with on-demand wherever it would risk the deadline."""

    def decide(at: Standing) -> int:
        place = rule(at)
        safe = may_wait(terms, at) if place == IDLE else place == ON_DEMAND or may_run(terms, at, place)
        return place if safe else ON_DEMAND

    return decide
