"""Our policy on the recorded market: no deadline missed, not dearer than greedy, and the figures it was built for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.unit.simulation.spot.markets import lanes, recorded, terms

from gpufleet.procurement.spot.safety import may_run, may_wait
from gpufleet.procurement.spot.survival import Outlook
from gpufleet.procurement.spot.terms import IDLE, ON_DEMAND, Standing, Terms
from gpufleet.simulation.spot.study import study

GOALS = {8: 0.21, 16: 0.31}


@pytest.mark.parametrize(("gang", "goal"), GOALS.items())
def test_two_gangs_on_eight_zones_with_one_set_of_numbers(gang: int, goal: float) -> None:
    found = study(recorded("us", gang), terms("48h", "60h"), "gpufleet", range(0, 2104, 71))
    assert found.missed == 0 and found.mean is not None
    assert float(found.mean) <= goal


CASES = {
    "one zone that is mostly away": ("us-east5-a", 16, "48h", "60h", "10m"),
    "one good zone": ("us-central1-a", 16, "48h", "60h", "10m"),
    "rare saves": ("us", 16, "48h", "60h", "30m"),
    "a short job": ("us-central1", 12, "12h", "15h", "10m"),
    "little time to spare": ("us", 8, "48h", "52h", "10m"),
    "much time to spare": ("us", 16, "24h", "48h", "10m"),
    "everywhere": ("all", 16, "48h", "60h", "30m"),
    "hardly any time to spare": ("us", 4, "48h", "49h", "10m"),
}


@pytest.mark.parametrize(("zones", "gang", "work", "deadline", "checkpoint"), CASES.values(), ids=CASES)
def test_never_dearer_than_greedy(zones: str, gang: int, work: str, deadline: str, checkpoint: str) -> None:
    market, starts = recorded(zones, gang), range(0, 2104, 142)
    asked = terms(work, deadline, checkpoint)
    ours, greedy = (study(market, asked, policy, starts) for policy in ("gpufleet", "greedy"))
    assert ours.missed == 0 == greedy.missed
    assert ours.mean is not None and greedy.mean is not None
    assert ours.mean <= greedy.mean


def test_the_same_twice() -> None:
    market, asked = recorded("us", 12), terms("24h", "30h")
    once, again = (study(market, asked, "gpufleet", range(0, 2104, 701)) for _ in range(2))
    assert once == again


WORK = Terms(work=50, deadline=100, checkpoint=5)

RISKS = {
    # tick, done, place, ticks there -> may wait, may run in zone 0
    "early on everything may be risked": ((0, 0, IDLE, 0), True, True),
    "with time for on-demand only from now, nothing": ((8, 0, IDLE, 0), False, False),
    "a running gang may go on where a wait would be too long": ((11, 15, 0, 4), False, True),
    "a stay that would lose four units is too much": ((12, 19, 0, 5), False, False),
    "the last tick of work is safe, whatever comes": ((19, 46, 0, 9), False, True),
}  # fmt: skip


@pytest.mark.parametrize(("standing", "wait", "run"), RISKS.values(), ids=RISKS)
def test_what_may_be_risked(standing: tuple[int, int, int, int], wait: bool, run: bool) -> None:
    at = Standing(*standing, up=(0,))
    assert (may_wait(WORK, at), may_run(WORK, at, 0)) == (wait, run)


def test_old_zones_last_and_flapping_ones_do_not() -> None:
    outlook = Outlook(3)
    for tick in range(200):
        outlook.see([0] + [1] * (tick % 3 > 0) + [2] * (tick > 196))
    steady, flapping, young = (outlook.life(zone) for zone in range(3))
    assert steady > 10 * flapping and steady > 3 * young > flapping


def test_a_zone_that_comes_back_soon_is_waited_for_less_than_one_long_gone() -> None:
    outlook = Outlook(2)
    for tick in range(120):
        outlook.see([0] * (tick % 6 != 5) + [1] * (tick < 40))
    assert outlook.wait(0) < 3 < outlook.wait(1)


def test_on_demand_is_left_for_a_zone_that_lasts_and_not_for_one_that_flaps() -> None:
    asked = Terms(work=400, deadline=470, checkpoint=5)
    steady = lanes("." * 30 + "#" * 170, prices=(2,))
    flaps = lanes(("#" + "." * 4) * 40, prices=(2,))
    bought = [study(m, asked, "gpufleet", [0]).outcomes[0].on_demand_ticks for m in (steady, flaps)]
    assert bought[0] < 60 < bought[1]


def test_an_answer_in_exact_numbers() -> None:
    found = study(lanes("#" * 30, prices=(2,)), Terms(39, 90, 5), "gpufleet", [0])
    assert found.mean == Fraction(9 * 5 * 2, 45 * 10)
    assert ON_DEMAND not in (0, IDLE)
