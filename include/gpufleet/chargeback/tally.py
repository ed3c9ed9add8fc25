"""Sums of one day while it is metered: whole numbers of GPU-time and of money, exact and cheap to add a million times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import TypeVar

from gpufleet.chargeback.days import HOUR, Day
from gpufleet.chargeback.holdings import Stretch
from gpufleet.model.usage import NodeUp

Line = tuple[str, str]
"""Team and project."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The grids that every amount and every price of one bill lies on: 1/`grains` of a GPU, 1/`coins` of money an hour."""

    grains: int
    coins: int

    @classmethod
    def of(cls, amounts: Iterable[Fraction], prices: Iterable[Fraction]) -> Scale:
        return cls(lcm(*{a.denominator for a in amounts}), lcm(*{p.denominator for p in prices}))

    def with_amounts(self, amounts: Iterable[Fraction]) -> Scale:
        """The same grids, fine enough for these amounts too."""
        return Scale(lcm(self.grains, *{a.denominator for a in amounts}), self.coins)

    def amount(self, gpus: Fraction | int) -> int:
        return int(gpus * self.grains)

    def price(self, price: Fraction) -> int:
        return int(price * self.coins)

    def hours(self, spans: int) -> Fraction:
        """GPU-hours of grains x microseconds."""
        return Fraction(spans, self.grains * HOUR)

    def money(self, costs: int) -> Fraction:
        """Money of grains x microseconds x coins."""
        return Fraction(costs, self.grains * HOUR * self.coins)


@dataclass(slots=True)
class LineTally:
    """GPU-time and cost of one team and project; index 1 is the over-quota part."""

    spans: list[int] = field(default_factory=lambda: [0, 0])
    usage: list[int] = field(default_factory=lambda: [0, 0])
    commitment: int = 0
    by_model: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def held(self) -> int:
        """GPU-time in all."""
        return self.spans[0] + self.spans[1]

    def refine(self, factor: int) -> None:
        """The same amounts in grains that are so many times finer."""
        self.spans = [span * factor for span in self.spans]
        self.usage = [cost * factor for cost in self.usage]
        self.commitment *= factor
        _refine(self.by_model, factor)


@dataclass(slots=True, eq=False)
class Entry:
    """What one part was at one price on one day: GPU-time in grains x microseconds, cost in those x coins.

    `commitment` is what covers it, by its place in the rates, else None; `price` what it costs (None: no price fits) and
    `listed` the list price then, in coins. [begin, end) are its first and last instant; between them it may have paused.
    """

    stretch: Stretch | None
    """None for idle GPUs of the node."""
    over: bool
    node: str
    up: NodeUp | None
    commitment: int | None
    price: int | None
    listed: int | None
    begin: int
    end: int
    spans: int = 0
    cost: int = 0


Entries = dict[tuple[Stretch | str, bool, str, int | None, int | None, int | None], Entry]
"""By stretch (or node, for its idle GPUs), over-quota or not, id of the node-up, commitment, price and list price."""


@dataclass(slots=True)
class DayTally:
    """One day of the fleet."""

    day: Day
    lines: dict[Line, LineTally] = field(default_factory=lambda: defaultdict(LineTally))
    idle: int = 0
    idle_cost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By GPU model (rule 22, `proportional`)."""
    covered: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """GPU-time that each commitment, by its place in the rates, covered."""
    covered_cost: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    borne: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    """Rule 22, `quota-holders`: what a team bears, by the number it is yet to be divided by."""
    entries: Entries | None = None
    """Every reason by itself, where charges are wanted."""

    def refine(self, factor: int) -> None:
        """The same sums in grains that are so many times finer."""
        for line in self.lines.values():
            line.refine(factor)
        self.idle *= factor
        _refine(self.idle_cost, factor)
        _refine(self.covered, factor)
        _refine(self.covered_cost, factor)
        # a divisor is an amount too
        borne = {(team, divisor * factor): cost * factor**2 for (team, divisor), cost in self.borne.items()}
        self.borne = defaultdict(int, borne)
        for entry in (self.entries or {}).values():
            entry.spans *= factor
            entry.cost *= factor


K = TypeVar("K")


def _refine(sums: MutableMapping[K, int], factor: int) -> None:
    for key in sums:
        sums[key] *= factor
