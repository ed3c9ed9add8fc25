"""What a GPU-hour costs where and when: list prices (rule 20) and the amortised rate of commitments (rule 21)."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from gpufleet.chargeback.days import FOREVER, HOUR, micros
from gpufleet.chargeback.rates import Commitment, Match, Price
from gpufleet.model.usage import NodeUp

NANO = 10**9

Traits = tuple[tuple[str, str], ...]
"""What a node is, as far as prices ask: sorted pairs of key and value, without its name."""


def traits(up: NodeUp | None) -> Traits:
    """A node that was never announced has none: only its name can match (rule 11)."""
    if up is None:
        return ()
    known = (("capacity", up.capacity), ("model", up.model), ("provider", up.provider), ("region", up.region))
    return tuple((key, value) for key, value in known if value is not None)


def matches(match: Match, node: str, what: Traits) -> bool:
    """Whether the node has every fact asked for."""
    return all((key, value) in what or (key == "node" and value == node) for key, value in match.items())


@dataclass(frozen=True, slots=True)
class Rate:
    """The price of a GPU-hour in [begin, end); None where no entry fits."""

    begin: int
    end: int
    price: Fraction | None


class PriceList:
    """The entries in their order, looked up by what a node is."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self._prices = prices
        self._spans = [_span(p) for p in prices]
        self._by_name: dict[str, list[int]] = defaultdict(list)
        for i, price in enumerate(prices):
            self._by_name[price.match.get("node", "")].append(i)
        self._fitting: dict[Traits, list[int]] = {}
        self._rates: dict[tuple[tuple[int, ...], int], tuple[Rate, ...]] = {}

    def rates(self, node: str, up: NodeUp | None) -> tuple[Rate, ...]:
        """The price over all time, in stretches; neighbours differ."""
        what = traits(up)
        if what not in self._fitting:
            self._fitting[what] = [i for i in self._by_name[""] if matches(self._prices[i].match, "", what)]
        own = [i for i in self._by_name.get(node, ()) if node and matches(self._prices[i].match, node, what)]
        key = (tuple(sorted([*self._fitting[what], *own])), up.gpus if up else 0)
        if key not in self._rates:
            self._rates[key] = tuple(self._walk(*key))
        return self._rates[key]

    def _walk(self, entries: tuple[int, ...], gpus: int) -> Iterator[Rate]:
        """In each piece of time the first entry in force counts; pieces of one price are one."""
        since, price = -FOREVER, None
        for at, in_force in self._turns(entries):
            then = self._per_gpu(in_force[0], gpus) if in_force else None
            if then != price and since < at:
                yield Rate(since, at, price)
            if then != price:
                since, price = at, then
        if since < FOREVER:
            yield Rate(since, FOREVER, price)

    def _turns(self, entries: tuple[int, ...]) -> Iterator[tuple[int, list[int]]]:
        """Where an entry begins or ends, and those in force from there, by their place in the list."""
        borders: dict[int, list[int]] = defaultdict(list)
        for i in entries:
            for border in self._spans[i]:
                borders[border].append(i)
        in_force: list[int] = []
        for at, turning in sorted(borders.items()):
            for i in turning:
                if at == self._spans[i][0]:
                    insort(in_force, i)
                else:
                    in_force.remove(i)
            yield at, in_force

    def _per_gpu(self, entry: int, gpus: int) -> Fraction | None:
        price = self._prices[entry]
        if price.per_node_hour is None:
            return price.per_gpu_hour
        return price.per_node_hour / gpus if gpus else None


def _span(price: Price) -> tuple[int, int]:
    return (
        -FOREVER if price.begin is None else micros(price.begin),
        FOREVER if price.end is None else micros(price.end),
    )


# ---------------------------------------------------------------- commitments


@dataclass(frozen=True, slots=True)
class Phase:
    """A commitment's rate per GPU-hour in [begin, end)."""

    begin: int
    end: int
    rate: Fraction


def phases(commitment: Commitment) -> tuple[Phase, ...]:
    """Each hour of the term bears the same part of the upfront, cut to nine decimals; the last bears what is left."""
    begin, end = micros(commitment.begin), micros(commitment.end)
    hours = (end - begin) // HOUR
    each = Fraction(floor(commitment.upfront * NANO / hours), NANO)
    last = commitment.upfront - each * (hours - 1)
    found = (
        Phase(begin, end - HOUR, each / commitment.gpus + commitment.per_gpu_hour),
        Phase(end - HOUR, end, last / commitment.gpus + commitment.per_gpu_hour),
    )
    return tuple(p for p in found if p.begin < p.end)
