"""The least cost with the whole future known: an exact dynamic program, the yardstick for every policy.

Backwards over ticks, with the work done as a vector: for each place and each age of a set of machines that makes a
difference (what a preemption takes back repeats with the checkpoint interval) the least cost from there to the end.
Costs are floats of on-demand ticks (sums of some hundred prices: errors are around 1e-13).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market

if TYPE_CHECKING:
    import numpy as np

    Costs = np.ndarray[Any, np.dtype[np.float64]]


def optimum(market: Market, terms: Terms, starts: Iterable[int]) -> list[float]:
    """The least cost of a job from each row, in on-demand ticks; infinite where no way meets the deadline."""
    ages = _Ages(terms)
    return [_least(market, terms, start, ages) for start in starts]


class _Ages:
    """Ticks that a set of machines has run, as far as they matter: before the delay is over one by one, then in a circle."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        first = -(-terms.delay // terms.tick)
        circle = terms.checkpoint // math.gcd(terms.tick, terms.checkpoint)
        self.count = first + circle
        self.next = [age + 1 for age in range(self.count - 1)] + [first]

    def gain(self, age: int) -> int:
        """What the tick after that age adds to the work done."""
        return self.terms.progress(age + 1) - self.terms.progress(age)


def _least(market: Market, terms: Terms, start: int, ages: _Ages) -> float:
    import numpy as np

    size = terms.work + 1
    idle = np.full(size, np.inf)
    idle[-1] = 0.0
    spot = np.tile(idle, (len(market.zones), ages.count, 1))
    bought = np.tile(idle, (ages.count, 1))
    price = [float(p / market.on_demand) for p in market.spot]
    for tick in range(terms.deadline // terms.tick - 1, -1, -1):
        up, then = (market.up[(start + tick + more) % market.rows] for more in (0, 1))
        bought_now = _ran(bought, ages, 1.0)
        ran = {}
        for zone in up:
            after = spot[zone] if zone in then else _preempted(idle, terms, ages)
            ran[zone] = _ran(after, ages, price[zone])
        free = np.minimum(idle, bought_now[0])
        for costs in ran.values():
            np.minimum(free, costs[0], out=free)
        free[-1] = 0.0
        idle, bought = free, np.minimum(bought_now, free)
        for zone in up:
            spot[zone] = np.minimum(ran[zone], free)
    return float(idle[0])


def _ran(after: Costs, ages: _Ages, price: float) -> Costs:
    """Costs of running a tick at every age, given the costs at the next look."""
    import numpy as np

    found = np.full_like(after, price)
    for age in range(ages.count):
        gain = ages.gain(age)
        found[age, : max(0, after.shape[1] - gain)] += after[ages.next[age], gain:]
    found[:, -1] = 0.0
    return found


def _preempted(idle: Costs, terms: Terms, ages: _Ages) -> Costs:
    """Costs at the next look by age, where the zone is lost by then: back to the last save, except for work that is done."""
    import numpy as np

    found = np.full((ages.count, len(idle)), np.inf)
    for age in range(ages.count):
        lost = terms.lost(age)
        found[age, lost:] = idle[: max(0, len(idle) - lost)]
    found[:, -1] = 0.0
    return found
