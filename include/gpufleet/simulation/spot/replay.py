"""One job on the recorded market under one policy, counted in whole ticks and units, so that nothing is rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.procurement.spot.terms import IDLE, ON_DEMAND, Standing, Terms
from gpufleet.simulation.spot.market import Market

Decide = Callable[[Standing], int]
"""Where to run for this tick: a zone of `Standing.up`, `ON_DEMAND` or `IDLE`."""

PATIENCE = 3
"""Deadlines after which a job that has not ended is given up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job. `ticks` run to its end; `cost` is in on-demand ticks of the gang."""

    ticks: int
    finished: bool
    missed: bool
    preemptions: int
    cost: Fraction
    on_demand_ticks: int = 0
    idle_ticks: int = 0


class Run:
    """One job while it is replayed."""

    def __init__(self, market: Market, terms: Terms, start: int) -> None:
        self.market, self.terms, self.start = market, terms, start
        self.tick = self.done = self.base = self.ticks = self.preemptions = 0
        self.place = IDLE
        self.spent: dict[int, int] = {}

    def look(self) -> Standing:
        """Rule 5a, then what the policy may know of the job."""
        up = self.market.up[(self.start + self.tick) % self.market.rows]
        if self.place >= 0 and self.place not in up:
            self.done -= self.terms.lost(self.ticks)
            self.place, self.ticks = IDLE, 0
            self.preemptions += 1
        return Standing(self.tick, self.done, self.place, self.ticks, up)

    def step(self, place: int) -> None:
        """Rules 5c to 5e: one tick at that place."""
        if place != self.place:
            self.place, self.ticks = place, 0
        if not self.ticks:
            self.base = self.done
        self.spent[place] = self.spent.get(place, 0) + 1
        self.tick += 1
        if place != IDLE:
            self.ticks += 1
            self.done = self.base + self.terms.progress(self.ticks)

    @property
    def ended(self) -> bool:
        return self.done >= self.terms.work


def replay(market: Market, terms: Terms, start: int, decide: Decide) -> Outcome:
    """One job from row `start`; a policy that names a zone it cannot have is a mistake of the program: ValueError."""
    run = Run(market, terms, start)
    while not run.ended and terms.tick * run.tick < PATIENCE * terms.deadline:
        at = run.look()
        place = decide(at)
        if place >= 0 and place not in at.up:
            raise ValueError(f"zone {place} is not to be had at tick {run.tick}")
        run.step(place)
    late = terms.tick * run.tick > terms.deadline
    price = {ON_DEMAND: Fraction(1), IDLE: Fraction(0)}
    cost = sum(
        (n * price.get(p, market.spot[p] / market.on_demand if p >= 0 else Fraction(0)) for p, n in run.spent.items()),
        Fraction(0),
    )
    return Outcome(
        run.tick,
        run.ended,
        late or not run.ended,
        run.preemptions,
        cost,
        run.spent.get(ON_DEMAND, 0),
        run.spent.get(IDLE, 0),
    )
