"""Our own policy on the recorded market: fed with the rows up to the present tick, never with one that is still to come."""

from __future__ import annotations

from typing import Final

from gpufleet.procurement.spot.choice import choose
from gpufleet.procurement.spot.going_rate import GoingRate
from gpufleet.procurement.spot.survival import Outlook
from gpufleet.procurement.spot.terms import Standing, Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.replay import Decide

DEFINITION: Final = (
    "the cheapest safe bet of visits by expected life, waits and on-demand, with a price on spare time; safe: whatever "
    "happens next, on-demand still meets the deadline"
)
HISTORY: Final = 1008
"""Rows before the start that it has seen: a week."""


def gpufleet(market: Market, terms: Terms, start: int) -> Decide:
    """Our policy for one job. Its history is cut where, the trace going round, it would hold rows that the job will meet."""
    prices = tuple(float(price / market.on_demand) for price in market.spot)
    outlook, rate = Outlook(len(prices)), GoingRate(terms, prices)

    def see(row: int) -> None:
        up = market.up[row % market.rows]
        outlook.see(up)
        rate.see(up)

    ahead = -(-terms.deadline // terms.tick)
    for row in range(start - max(0, min(HISTORY, market.rows - ahead)), start):
        see(row)

    def decide(at: Standing) -> int:
        see(start + at.tick)
        return choose(terms, at, outlook, rate)

    return decide
