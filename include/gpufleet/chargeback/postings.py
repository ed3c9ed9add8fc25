"""Every node's description and price inside a window, cut where either changes (rules 10, 11, 20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.chargeback.nodes import Life
from gpufleet.chargeback.pricing import PriceList, matches, traits
from gpufleet.chargeback.rates import Rates
from gpufleet.model.usage import NodeUp


@dataclass(frozen=True, slots=True)
class Posting:
    """What a node is and costs in [begin, end). `up` is None for a node that was never announced."""

    begin: int
    end: int
    node: str
    up: NodeUp | None
    price: Fraction | None
    commitments: tuple[int, ...]
    """Those that match it, by their place in the rates."""

    @property
    def gpus(self) -> int:
        return self.up.gpus if self.up else 0


def postings(lives: Mapping[str, Life], used: Iterable[str], rates: Rates, begin: int, end: int) -> list[Posting]:
    """By node, in the order of time. Of nodes never announced only those in `used` matter."""
    prices = PriceList(rates.prices)
    found: list[Posting] = []
    for node in sorted({name for name, life in lives.items() if life.announced}.union(used)):
        for since, until, up in _stays(lives[node], begin, end):
            what = traits(up)
            fitting = tuple(k for k, c in enumerate(rates.commitments) if matches(c.match, node, what))
            for rate in prices.rates(node, up):
                first, last = max(since, rate.begin), min(until, rate.end)
                if first < last:
                    found.append(Posting(first, last, node, up, rate.price, fitting))
    return found


def _stays(life: Life, begin: int, end: int) -> Iterator[tuple[int, int, NodeUp | None]]:
    """When the node was up inside the window, and as what."""
    if not life.announced:
        yield begin, end, None
    for shape in life.shapes:
        since, until = max(shape.begin, begin), min(shape.end, end)
        if since < until:
            yield since, until, shape.up
