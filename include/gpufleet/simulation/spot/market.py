"""The recorded market as one gang sees it: which zones it could have at each tick, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.errors import Invalid


@dataclass(frozen=True, slots=True)
class Trace:
    """For each tick of ten minutes and each zone, how many one-GPU machines could be launched."""

    zones: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ZonePrice:
    """Per GPU-hour."""

    spot: Fraction
    on_demand: Fraction


@dataclass(frozen=True, slots=True)
class Market:
    """`up[row]` are the zones, by number and in order, that hold the whole gang and cost less than on-demand."""

    zones: tuple[str, ...]
    spot: tuple[Fraction, ...]
    on_demand: Fraction
    up: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> int:
        return len(self.up)

    def best(self, up: tuple[int, ...]) -> int:
        """The zone of the lowest price, the first of equals; `up` must not be empty."""
        return min(up, key=lambda zone: (self.spot[zone], zone))


def market(trace: Trace, prices: Mapping[str, ZonePrice], zones: str, gang: int) -> Market:
    """The market of a gang of so many GPUs in `zones` (all, or names and prefixes separated by commas).

    The on-demand price is the lowest of the whole price list: on-demand is bought where it is cheapest.
    Raises Invalid for a word that names no zone and for a zone without a price.
    """
    chosen = _chosen(trace.zones, zones)
    unpriced = [trace.zones[column] for column in chosen if trace.zones[column] not in prices]
    if unpriced:
        raise Invalid(f"the prices lack zone {unpriced[0]}; add it, or leave it out of --zones.")
    spot = tuple(prices[trace.zones[column]].spot for column in chosen)
    on_demand = min(price.on_demand for price in prices.values())
    cheap = [(number, column) for number, column in enumerate(chosen) if spot[number] < on_demand]
    up = tuple(tuple(number for number, column in cheap if row[column] >= gang) for row in trace.counts)
    return Market(tuple(trace.zones[column] for column in chosen), spot, on_demand, up)


def _chosen(zones: tuple[str, ...], words: str) -> list[int]:
    """Columns that a word names or begins, in the order of the columns."""
    if words == "all":
        return list(range(len(zones)))
    starts = [word.strip() for word in words.split(",")]
    for word in starts:
        if not word or not any(zone.startswith(word) for zone in zones):
            raise Invalid(f"--zones: '{word}' names no zone of the trace; known are {', '.join(zones)}.")
    return [column for column, zone in enumerate(zones) if zone.startswith(tuple(starts))]
