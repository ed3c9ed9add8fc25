"""What the portfolio buys for whom: stories on one GPU model with round prices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from gpufleet.model.capacity import CapacityType
from gpufleet.procurement.demand import HOURS, Class, Promise, Wanted
from gpufleet.procurement.milp import solve
from gpufleet.procurement.portfolio import Offer, Portfolio, PortfolioPolicy, explained

MODEL = "H100-80"
RESERVED = Offer("reserved", CapacityType.RESERVED, MODEL, 8, Fraction(4), region="east")
ON_DEMAND = Offer("on-demand", CapacityType.ON_DEMAND, MODEL, 8, Fraction(7), region="east")
SPOT_A = Offer("spot-a", CapacityType.SPOT, MODEL, 8, Fraction(2), region="east", lost=Fraction(1, 5))
SPOT_B = Offer("spot-b", CapacityType.SPOT, MODEL, 8, Fraction("2.4"), region="west", lost=Fraction(1, 5))
MARKET = (RESERVED, ON_DEMAND, SPOT_A, SPOT_B)


def wanted(promise: Promise, gangs: int, gang: int = 8, *, hours: range = range(HOURS), **more: object) -> Wanted:
    of = replace(Class(promise, MODEL, gang), **more)  # type: ignore[arg-type]
    return Wanted(of, tuple(gangs if hour in hours else 0 for hour in range(HOURS)))


def bought(found: Portfolio) -> dict[str, int]:
    return {used.offer.name: used.instances for used in found.used}


SERVICE = wanted(Promise.SERVICE, 16, 1)
OFFICE = range(0, 60)
"""60 of 168 hours: 36 %."""

CASES = {
    "a service stands on reserved capacity": ([SERVICE], MARKET, {"reserved": 2}),
    "even when it works only some hours": (
        [wanted(Promise.SERVICE, 8, 1, hours=OFFICE)],
        MARKET,
        {"reserved": 1},
    ),
    "steady work that may not be interrupted is committed to": (
        [wanted(Promise.FIRM, 4)],
        MARKET,
        {"reserved": 3, "on-demand": 1},  # not all: the coverage is nine tenths
    ),
    "the same for a third of the hours is bought on demand": (
        [wanted(Promise.FIRM, 4, hours=OFFICE)],
        MARKET,
        {"on-demand": 4},
    ),
    "training goes to spot, half in each pool": (
        [wanted(Promise.INTERRUPTIBLE, 4)],
        MARKET,
        {"spot-a": 2, "spot-b": 2},
    ),
    "one gang is never cut in two": (
        [wanted(Promise.INTERRUPTIBLE, 1, 16, fabric=True)],
        MARKET,
        {"spot-a": 2},
    ),
    "a gang that spans nodes leaves pools without a fabric alone": (
        [wanted(Promise.INTERRUPTIBLE, 1, 16, fabric=True)],
        (ON_DEMAND, replace(SPOT_A, fabric=False), SPOT_B),
        {"spot-b": 2},
    ),
    "work that must stay in a region does": (
        [wanted(Promise.INTERRUPTIBLE, 2, regions=("west",), hours=OFFICE)],
        MARKET,
        {"spot-b": 2},  # crowded, but nothing else is there
    ),
    "what is there already is used first": (
        [wanted(Promise.INTERRUPTIBLE, 2)],
        (replace(RESERVED, existing=3), *MARKET[1:]),
        {"reserved": 3},
    ),
    "a spot price above on-demand buys no spot": (
        [wanted(Promise.INTERRUPTIBLE, 2, hours=OFFICE)],
        (ON_DEMAND, replace(SPOT_A, price=Fraction(6))),
        {"on-demand": 2},
    ),
}


@pytest.mark.parametrize(("demand", "offers", "want"), CASES.values(), ids=CASES)
def test_what_is_bought(demand: list[Wanted], offers: tuple[Offer, ...], want: dict[str, int]) -> None:
    found = solve(demand, offers, PortfolioPolicy())
    assert bought(found) == want, explained(found, offers, "USD")
    assert found.short == ()


def test_a_region_with_one_pool_leaves_the_rest_short_rather_than_elsewhere() -> None:
    far = wanted(Promise.INTERRUPTIBLE, 2, regions=("south",))
    found = solve([far], MARKET, PortfolioPolicy())
    assert found.used == () and found.keeps_the_promise
    assert [(short.gpus, short.gpu_hours) for short in found.short] == [(16, 16 * HOURS)]


def test_a_service_that_no_commitment_can_hold_breaks_the_promise_and_is_told() -> None:
    found = solve([SERVICE], (replace(RESERVED, most=1), ON_DEMAND, SPOT_A), PortfolioPolicy())
    assert not found.keeps_the_promise and [short.gpus for short in found.short] == [8]
    assert "short: 8 GPUs at most" in explained(found, MARKET, "USD")[-2]


def test_a_budget_lets_interruptible_work_wait_before_firm_work() -> None:
    both = [wanted(Promise.FIRM, 1, hours=OFFICE), wanted(Promise.INTERRUPTIBLE, 4, hours=OFFICE)]
    found = solve(both, MARKET[1:], PortfolioPolicy(max_hourly=Fraction(7 * 8 + 2 * 8)))
    assert [(s.of.promise, s.gpus) for s in found.short] == [(Promise.INTERRUPTIBLE, 24)]


def test_a_bound_on_regret_keeps_commitments_small() -> None:
    """Nine nodes cost 36 an hour and GPU; were four fifths of the work to go, two of them would be worth 14 on demand."""
    steady, fall = [wanted(Promise.FIRM, 10)], Fraction(4, 5)
    free = solve(steady, MARKET, PortfolioPolicy(regret=Fraction(1), fall=fall))
    bound = solve(steady, MARKET, PortfolioPolicy(regret=Fraction(0), fall=fall))
    assert (bought(free)["reserved"], bought(bound)["reserved"]) == (9, 3)


def test_each_line_says_what_why_and_what_it_would_cost_on_demand() -> None:
    found = solve([SERVICE, wanted(Promise.INTERRUPTIBLE, 4)], MARKET, PortfolioPolicy())
    lines = explained(found, MARKET, "USD")
    assert lines[0].startswith("reserved, reserved: 2 x 8 GPUs (2 new): 10,752.00 USD a week for 2,688 GPU-hours")
    assert "on demand only 18,816.00. Used 100% of the hours; a new one pays from 57%." in lines[0]
    assert any(
        "Work that may be interrupted; 20% of it is done again, so a useful hour costs 2.50" in line for line in lines
    )
    assert "less" in lines[-1] and found.saved > Fraction(1, 2)


def test_the_same_question_in_another_order_has_the_same_answer() -> None:
    demand = [SERVICE, wanted(Promise.INTERRUPTIBLE, 4), wanted(Promise.FIRM, 2, hours=OFFICE)]
    assert solve(demand, MARKET, PortfolioPolicy()) == solve(demand[::-1], MARKET[::-1], PortfolioPolicy())


def test_nothing_wanted_buys_nothing() -> None:
    found = solve([], MARKET, PortfolioPolicy())
    assert (found.used, found.cost, found.on_demand_only, found.gap) == ((), 0, 0, 0)
