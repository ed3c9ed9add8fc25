"""Real prices, and when spot capacity was really there: thirteen zones of GCP, H100, two weeks of October 2025.

Every ten minutes 16 machines with one GPU were asked for in each zone. How much more there was nobody knows: a zone is
taken to have `SCALE` times what was counted (64 GPUs where all 16 came). Only zones in the USA, where the data is.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from benchmarks.capacity.work import MODEL, PER_HOUR
from benchmarks.experiments import PROJECT
from gpufleet.model.capacity import CapacityType
from gpufleet.procurement.portfolio import Offer

DATA: Final = PROJECT / "benchmarks" / "data"
SCALE: Final = 4
PROBED: Final = 8
"""GPUs of the gang whose runs the planned losses are counted for."""
RESTART, INTERVAL = 12, 10
"""Minutes until a stopped gang works again, and between its checkpoints."""
CALM: Final = 2
"""Ticks that a zone is watched before new work goes there."""
PLANNED_TICKS: Final = 1008
"""The first week of the trace: what the plan may know."""


@dataclass(frozen=True, slots=True)
class Market:
    """Prices per GPU-hour; `counts` by zone tick by tick."""

    on_demand: Fraction
    reserved: Fraction
    owned: Fraction
    spot: dict[str, Fraction]
    counts: dict[str, list[int]]

    def free(self, zone: str, tick: int) -> int:
        """GPUs that the zone has for us; after the last row the trace goes on with the first."""
        counts = self.counts[zone]
        return SCALE * counts[tick % len(counts)]

    def calm(self, zone: str, tick: int) -> int:
        """What it had at the worst of the last twenty minutes: a place for who may choose."""
        return min(self.free(zone, tick - back) for back in range(CALM))


def market() -> Market:
    told = json.loads((DATA / "prices" / "h100.json").read_text(), parse_float=Fraction)
    prices = json.loads((DATA / "spot" / "gcp_h100_zone_price_per_gpu_h.json").read_text(), parse_float=Fraction)
    with (DATA / "spot" / "gcp_h100_spot_launch_counts_2025-10.csv").open() as file:
        rows = list(csv.DictReader(file))
    zones = [zone for zone in prices if zone.startswith("us-")]
    return Market(
        on_demand=Fraction(told["on_demand_per_gpu_hour"]),
        reserved=Fraction(told["reserved_per_gpu_hour"]),
        owned=Fraction(told["owned_per_gpu_hour"]),
        spot={zone: prices[zone][0] for zone in zones},
        counts={zone: [int(row[zone]) for row in rows] for zone in zones},
    )


def offers(found: Market, *, owned: bool) -> tuple[Offer, ...]:
    """What the portfolio may buy. Of a spot pool the expected loss is counted in the trace's first week."""
    kind, price = (CapacityType.OWNED, found.owned) if owned else (CapacityType.RESERVED, found.reserved)
    spot = (
        Offer(f"spot {zone}", CapacityType.SPOT, MODEL, 8, price, most=SCALE * 2, lost=lost_share(found, zone))
        for zone, price in sorted(found.spot.items())
        if available_share(found, zone) >= Fraction(1, 3)
    )
    return (
        Offer(str(kind.value), kind, MODEL, 8, price),
        Offer("on-demand", CapacityType.ON_DEMAND, MODEL, 8, found.on_demand),
        *spot,
    )


def available_share(found: Market, zone: str) -> Fraction:
    """Of the first week's ticks those in which a gang could be had."""
    counts = found.counts[zone][:PLANNED_TICKS]
    return Fraction(sum(c >= PROBED for c in counts), len(counts))


def anywhere_share(found: Market) -> Fraction:
    """The same for any zone."""
    ticks = zip(*(counts[:PLANNED_TICKS] for counts in found.counts.values()), strict=True)
    there = [max(row) >= PROBED for row in ticks]
    return Fraction(sum(there), len(there))


def lost_share(found: Market, zone: str) -> Fraction:
    """Of paid time: each loss costs a restart and half an interval of work done again."""
    counts = [c >= PROBED for c in found.counts[zone][:PLANNED_TICKS]]
    losses = sum(before and not now for before, now in pairwise(counts))
    hours = Fraction(sum(counts), PER_HOUR)
    lost = losses * Fraction(RESTART + INTERVAL // 2, 60)
    return min(Fraction(9, 10), lost / hours) if hours else Fraction(9, 10)
