"""The named policies that ours is measured against.

`uniform-progress` is that of Can't Be Late (Wu et al., NSDI 2024) with a safety net that counts what an interruption takes
back; the published net (twice the delay, looked at only off spot) missed 7 to 60 % of tight deadlines on this trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpufleet.procurement.spot.terms import IDLE, ON_DEMAND, Standing, Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.replay import Decide

DEFINITIONS: Final = {
    "on-demand": "on-demand from the start",
    "spot": "stay where it is; idle: the cheapest zone there is, or wait; no safety net",
    "greedy": "on-demand once remaining work + 2 delays + checkpoint interval >= time left; else a zone, the cheapest, or wait",
    "uniform-progress": "as greedy, and on-demand too while no zone is there and work done lags behind even progress",
}


def _must(terms: Terms, at: Standing) -> bool:
    """Whether only on-demand is safe: restarts and what a preemption takes back might use up the time left."""
    left = terms.deadline - terms.tick * at.tick
    return terms.work - at.done + 2 * terms.delay + terms.checkpoint >= left


def on_demand(market: Market, terms: Terms) -> Decide:
    del market, terms
    return lambda at: ON_DEMAND


def spot(market: Market, terms: Terms) -> Decide:
    del terms

    def decide(at: Standing) -> int:
        return at.place if at.place >= 0 else _best(market, at)

    return decide


def greedy(market: Market, terms: Terms) -> Decide:
    def decide(at: Standing) -> int:
        if _must(terms, at):
            return ON_DEMAND
        return at.place if at.place >= 0 else _best(market, at)

    return decide


def uniform_progress(market: Market, terms: Terms) -> Decide:
    def decide(at: Standing) -> int:
        if _must(terms, at):
            return ON_DEMAND
        if at.place >= 0:
            return at.place
        return market.best(at.up) if at.up else _catch_up(terms, at)

    return decide


def _catch_up(terms: Terms, at: Standing) -> int:
    ahead = 2 * terms.delay if at.place == ON_DEMAND else 0
    lags = at.done * terms.deadline < (terms.tick * at.tick + ahead) * terms.work
    return ON_DEMAND if lags else IDLE


def _best(market: Market, at: Standing) -> int:
    return market.best(at.up) if at.up else IDLE


NAMED: Final[dict[str, Callable[[Market, Terms], Decide]]] = {
    "on-demand": on_demand,
    "spot": spot,
    "greedy": greedy,
    "uniform-progress": uniform_progress,
}
