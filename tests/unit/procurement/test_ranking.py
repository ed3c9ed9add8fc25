"""What an hour of work costs at an offering, and what history says of it, told as small stories."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.procurement.spot.history import UNKNOWN, Stay, lives
from gpufleet.procurement.spot.ranking import Estimate, Trip, estimate

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TRIP = Trip(start=0.2, lost=0.5, work=40)


def of(hourly: str, life: float, egress: int = 0) -> Estimate:
    return estimate(Fraction(hourly), life, TRIP, Fraction(egress))


FLAPS, LASTS, DEAR = of("29.70", 2.0), of("37.96", 20.0), of("98.00", math.inf)

STORIES = {
    "a dearer zone that lasts before a cheap one that flaps": (LASTS, FLAPS),
    "of two that last alike the cheaper": (FLAPS, of("37.96", 2.0)),
    "a flapping zone before on-demand, as long as it brings work for less": (FLAPS, DEAR),
    "on-demand before a zone that hardly brings any": (DEAR, of("29.70", 0.8)),
    "egress counts": (LASTS, of("28.00", 20.0, egress=900)),
    "what brings no work comes last, however cheap": (DEAR, of("1.00", 0.6)),
}


@pytest.mark.parametrize(("first", "second"), STORIES.values(), ids=STORIES)
def test_who_is_tried_first(first: Estimate, second: Estimate) -> None:
    assert first.order < second.order


def test_the_estimate_is_price_by_hours_that_bring_work() -> None:
    found = of("20.00", 4.7, egress=40)
    assert found.cost == pytest.approx((20 * 4.7 + 40) / 4.0)
    assert found.reason == "33.50 for an hour of work: lasts 4.7 h, 4.0 of 4.7 h bring work, egress 40.00"


def test_what_stays_is_paid_for_one_start() -> None:
    assert of("10.00", math.inf).cost == pytest.approx(10 * 40.2 / 40)


def test_what_is_too_short_says_so() -> None:
    assert of("10.00", 0.6) == Estimate(None, "expected to last 0.6 h, no longer than a start and what is lost")


def stay(hours_ago: float, hours: float | None, *, taken: bool = False, offering: str = "spot-a") -> Stay:
    began = NOW - timedelta(hours=hours_ago)
    return Stay(offering, began, None if hours is None else began + timedelta(hours=hours), taken)


class TestHistory:
    def test_nothing_is_said_of_what_was_never_bought(self) -> None:
        assert lives([], NOW) == {} and 0.5 < UNKNOWN < 24

    def test_an_old_zone_lasts_longer_than_a_young_one(self) -> None:
        old, young = lives([stay(40, None)], NOW)["spot-a"], lives([stay(0.2, None)], NOW)["spot-a"]
        assert old > 2 * young

    def test_one_that_was_taken_again_and_again_is_expected_to_be_taken_soon(self) -> None:
        flaps = [stay(hours, 0.2, taken=True) for hours in (1, 2, 3, 4, 5, 6, 7, 8)]
        assert lives(flaps, NOW)["spot-a"] < UNKNOWN * 2 / 3

    def test_what_we_gave_back_ourselves_says_nothing_against_it(self) -> None:
        calm = [stay(hours, 0.9) for hours in (1, 2, 3, 4, 5)]
        assert lives(calm, NOW)["spot-a"] > UNKNOWN

    def test_old_trouble_is_forgotten(self) -> None:
        recent = lives([stay(2, 0.5, taken=True)] * 3, NOW)["spot-a"]
        assert recent < lives([stay(120, 0.5, taken=True)] * 3, NOW)["spot-a"] <= UNKNOWN * 1.1

    def test_each_offering_has_its_own(self) -> None:
        found = lives([stay(1, 0.5, taken=True), stay(40, None, offering="spot-b")], NOW)
        assert list(found) == ["spot-a", "spot-b"] and found["spot-a"] < found["spot-b"]
