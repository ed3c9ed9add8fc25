"""The replay and the named policies, by hand on a small market and against a plain second program on the recorded one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.unit.simulation.spot.markets import lanes, recorded, terms
from tests.unit.simulation.spot.slow_spot import RULES, World, play

from gpufleet.procurement.spot.terms import IDLE, Terms
from gpufleet.simulation.spot.policies import NAMED
from gpufleet.simulation.spot.replay import replay
from gpufleet.simulation.spot.study import study

SMALL = lanes("###...#####.......", "..###......#####..")
WORK = Terms(work=39, deadline=90, checkpoint=5)

BY_HAND = {
    "on-demand pays nine whole ticks, the delay and the rest of the last one included": ("on-demand", 90, 0, 9),
    "spot alone waits through the gap and loses four units three times": ("spot", 37, 3, 16),
    "greedy goes on-demand when 19 + 12 + 5 >= 35": ("greedy", 72, 3, 16),
    "uniform progress buys the gap too": ("uniform-progress", 82, 3, 16),
}


@pytest.mark.parametrize(("policy", "cost", "preemptions", "ticks"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(policy: str, cost: int, preemptions: int, ticks: int) -> None:
    found = replay(SMALL, WORK, 0, NAMED[policy](SMALL, WORK))
    assert (found.cost * 10, found.preemptions, found.ticks) == (cost, preemptions, ticks)
    assert found.finished and not found.missed


def test_a_job_that_cannot_end_is_given_up_after_three_deadlines_and_left_out_of_the_means() -> None:
    dead = lanes("." * 18)
    found = study(dead, WORK, "spot", range(2))
    assert [o.ticks for o in found.outcomes] == [54, 54] and found.missed == 2
    assert (found.finished, found.mean, found.p90, found.hours) == ((), None, None, None)


def test_after_the_last_row_comes_the_first() -> None:
    late = replay(SMALL, WORK, 16, NAMED["spot"](SMALL, WORK))
    assert late.idle_ticks >= 2 and late.finished  # rows 16 and 17 are empty, row 0 is not


def test_a_policy_that_names_a_zone_it_cannot_have_is_found_out() -> None:
    with pytest.raises(ValueError, match="zone 1 is not to be had"):
        replay(SMALL, WORK, 0, lambda at: 1)


def test_leaving_by_oneself_loses_nothing_and_pays_the_delay_again() -> None:
    always = lanes("#" * 20, "#" * 20)
    hops = replay(always, WORK, 0, lambda at: (at.tick // 3) % 2)
    stays = replay(always, WORK, 0, lambda at: 0)
    assert stays.ticks == 9 and hops.ticks == 14  # three ticks bring nine units instead of fifteen
    assert hops.preemptions == 0


def test_waiting_costs_nothing() -> None:
    assert replay(SMALL, WORK, 0, lambda at: IDLE).cost == 0


CASES = [("us", 16, "10m"), ("us", 8, "30m"), ("us-east5-a,us-west", 8, "14m"), ("all", 12, "1h")]


@pytest.mark.parametrize("policy", sorted(NAMED))
@pytest.mark.parametrize(("zones", "gang", "checkpoint"), CASES)
def test_a_second_program_finds_the_same_to_the_last_digit(policy: str, zones: str, gang: int, checkpoint: str) -> None:
    market, asked = recorded(zones, gang), terms("48h", "60h", checkpoint)
    prices = {z: (p, market.on_demand) for z, p in zip(market.zones, market.spot, strict=True)}
    rows = [{z: gang * (n in up) for n, z in enumerate(market.zones)} for up in market.up]
    world = World(rows, prices, gang, 48 * 60, 60 * 60, asked.checkpoint * 2)
    for start in range(0, market.rows, 301):
        slow, found = play(world, start, RULES[policy]), replay(market, asked, start, NAMED[policy](market, asked))
        assert found.cost * market.on_demand == slow.paid * 6
        assert (found.preemptions, found.ticks) == (slow.preempted, len(slow.been))
        assert (found.idle_ticks, found.on_demand_ticks) == (slow.been.count("idle"), slow.been.count("on-demand"))


GOLDEN = {
    ("us", 8, "10m", "greedy"): (0.218125, 0, 16.533333, 53.077778),
    ("us", 16, "10m", "greedy"): (0.403119, 0, 33.233333, 58.866667),
    ("us", 16, "10m", "spot"): (0.261513, 15, 43.033333, 62.622222),
    ("us", 16, "30m", "uniform-progress"): (0.557340, 0, 28.100000, 59.433333),
    ("us-east5-a", 8, "30m", "greedy"): (0.912555, 0, 13.600000, 59.516667),
    ("us-central1-a", 16, "30m", "uniform-progress"): (0.589103, 0, 18.733333, 59.166667),
}
"""Mean ratio, missed, preemptions, hours over thirty starts; the second program's figures."""


@pytest.mark.parametrize(("case", "want"), GOLDEN.items(), ids=lambda v: "-".join(map(str, v)))
def test_golden_figures(case: tuple[str, int, str, str], want: tuple[float, int, float, float]) -> None:
    zones, gang, checkpoint, policy = case
    found = study(recorded(zones, gang), terms("48h", "60h", checkpoint), policy, range(0, 2104, 71))
    assert found.mean is not None and found.preemptions is not None and found.hours is not None
    assert len(found.outcomes) == 30 and found.missed == want[1]
    assert [float(v) for v in (found.mean, found.preemptions, found.hours)] == pytest.approx(
        [want[0], *want[2:]], abs=1e-6
    )


def test_p90_is_the_element_after_nine_tenths() -> None:
    found = study(recorded("us", 16), terms("48h", "60h"), "greedy", range(0, 2104, 71))
    assert found.p90 == sorted(found.ratios)[27] and found.p90 > Fraction(7, 10)
