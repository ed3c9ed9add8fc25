"""The same job from many rows of the market, and what that cost against on-demand only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.ours import DEFINITION, Ours
from gpufleet.simulation.spot.policies import DEFINITIONS, NAMED
from gpufleet.simulation.spot.replay import Outcome, replay

TICKS_PER_HOUR: Final = 6
OURS: Final = "gpufleet"
POLICIES: Final = (*NAMED, OURS)
DEFINED: Final = {**DEFINITIONS, OURS: DEFINITION}


@dataclass(frozen=True, slots=True)
class Study:
    """Outcomes by start. Ratios are of jobs that finished: their cost by on-demand's for the work and one delay."""

    policy: str
    terms: Terms
    outcomes: tuple[Outcome, ...]

    @property
    def finished(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.finished)

    @property
    def missed(self) -> int:
        return sum(o.missed for o in self.outcomes)

    @property
    def ratios(self) -> tuple[Fraction, ...]:
        return tuple(ratio(o.cost, self.terms) for o in self.finished)

    @property
    def mean(self) -> Fraction | None:
        return average(self.ratios)

    @property
    def p90(self) -> Fraction | None:
        """Element floor(0.9 n) of the sorted ratios, counted from 0."""
        ratios = sorted(self.ratios)
        return ratios[9 * len(ratios) // 10] if ratios else None

    @property
    def preemptions(self) -> Fraction | None:
        """Per job that finished."""
        return average(Fraction(o.preemptions) for o in self.finished)

    @property
    def hours(self) -> Fraction | None:
        """Mean time to the end."""
        return average(Fraction(o.ticks, TICKS_PER_HOUR) for o in self.finished)

    @property
    def on_demand_hours(self) -> Fraction | None:
        """Of the hours, those on on-demand machines."""
        return average(Fraction(o.on_demand_ticks, TICKS_PER_HOUR) for o in self.finished)

    @property
    def idle_hours(self) -> Fraction | None:
        """Of the hours, those without machines."""
        return average(Fraction(o.idle_ticks, TICKS_PER_HOUR) for o in self.finished)


def ratio(cost: Fraction, terms: Terms) -> Fraction:
    """A cost in on-demand ticks against on-demand for the work and one delay (rule 8)."""
    return cost * terms.tick / (terms.work + terms.delay)


def average(values: Iterable[Fraction]) -> Fraction | None:
    """None of nothing."""
    known = tuple(values)
    return sum(known, Fraction(0)) / len(known) if known else None


def study(
    market: Market,
    terms: Terms,
    policy: str,
    starts: Iterable[int],
    progress: Callable[[int], None] = lambda done: None,
) -> Study:
    """One job from each row of `starts`; `progress` hears how many have been replayed."""
    outcomes, ours = [], Ours(market, terms)
    for start in starts:
        decide = ours.job(start) if policy == OURS else NAMED[policy](market, terms)
        outcomes.append(replay(market, terms, start, decide))
        progress(len(outcomes))
    return Study(policy, terms, tuple(outcomes))
