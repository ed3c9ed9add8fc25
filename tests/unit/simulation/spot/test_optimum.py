"""The clairvoyant optimum is what trying every place at every tick finds, and no policy is cheaper."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulation.spot.markets import lanes, recorded, terms
from tests.unit.simulation.spot.slow_spot import World, least

from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.optimum import optimum
from gpufleet.simulation.spot.study import POLICIES, ratio, study


def tried(market: Market, asked: Terms, start: int) -> Fraction | None:
    rows = [{z: n in up for n, z in enumerate(market.zones)} for up in market.up]
    prices = {z: (p, market.on_demand) for z, p in zip(market.zones, market.spot, strict=True)}
    world = World(
        [{z: int(u) for z, u in r.items()} for r in rows],
        prices,
        1,
        2 * asked.work,
        2 * asked.deadline,
        2 * asked.checkpoint,
    )
    return least(world, start)


LANE = st.text("##.", min_size=9, max_size=9)


@settings(deadline=None, max_examples=60)
@given(LANE, LANE, st.integers(3, 25), st.integers(4, 10), st.integers(1, 12), st.integers(0, 8))
def test_it_is_what_trying_everything_finds(
    one: str, two: str, work: int, ticks: int, checkpoint: int, start: int
) -> None:
    market, asked = lanes(one, two), Terms(work, 5 * ticks, checkpoint)
    want = tried(market, asked, start)
    (found,) = optimum(market, asked, [start])
    assert (found == float("inf")) == (want is None)
    if want is not None:
        assert found == pytest.approx(float(want * 6 / market.on_demand))


@pytest.mark.parametrize(("gang", "published"), [(8, 0.190), (16, 0.234)])
def test_on_the_recorded_market(gang: int, published: float) -> None:
    market, asked = recorded("us", gang), terms("48h", "60h")
    costs = optimum(market, asked, range(0, 2104, 71 * 3))
    means = Fraction(sum(costs) / len(costs))
    assert float(ratio(means, asked)) == pytest.approx(published, abs=0.006)  # ten of the thirty starts


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_that_meets_the_deadline_is_cheaper(policy: str) -> None:
    market, asked = recorded("us", 12), terms("12h", "15h", "30m")
    starts = range(0, 2104, 211)
    for cost, outcome in zip(
        optimum(market, asked, starts), study(market, asked, policy, starts).outcomes, strict=True
    ):
        assert outcome.missed or float(outcome.cost) >= cost - 1e-9
