"""Markets for the tests: a small one written out by hand, and the recorded one."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

from gpufleet.formats.spot_trace import load_prices, load_trace
from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market, market

RECORDED = Path(__file__).parents[4] / "benchmarks" / "data" / "spot"
TRACE = RECORDED / "gcp_h100_spot_launch_counts_2025-10.csv"
PRICES = RECORDED / "gcp_h100_zone_price_per_gpu_h.json"


def lanes(*zones: str, prices: tuple[int, ...] = (2, 3), on_demand: int = 10) -> Market:
    """A zone per string, `#` where the gang can be had, one character for each tick."""
    up = tuple(tuple(z for z, lane in enumerate(zones) if lane[t] == "#") for t in range(len(zones[0])))
    names = tuple(f"zone-{z}" for z in range(len(zones)))
    return Market(names, tuple(Fraction(p) for p in prices[: len(zones)]), Fraction(on_demand), up)


@cache
def recorded(zones: str, gang: int) -> Market:
    return market(load_trace(TRACE), load_prices(PRICES), zones, gang)


def terms(work: str, deadline: str, checkpoint: str = "10m") -> Terms:
    """Hours or minutes, in units of two minutes."""
    return Terms(
        *(int(w[:-1]) * (30 if w[-1] == "h" else 1) // (1 if w[-1] == "h" else 2) for w in (work, deadline, checkpoint))
    )
