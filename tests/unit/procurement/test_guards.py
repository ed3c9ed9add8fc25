"""Guard rails as arithmetic: budgets until midnight, lists, who must be asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.choose import Purchase
from gpufleet.procurement.guards import (
    Guards,
    Spent,
    TeamGuard,
    hourly_room,
    instance_room,
    needs_a_person,
    on_the_lists,
)

EVENING = datetime(2026, 3, 2, 18, tzinfo=UTC)
OFFER = Offering("spot-east", "aws", "east", "z", "p5.48xlarge", CapacityType.SPOT, "H100-80", 8, Fraction(12))
TWO = Purchase(OFFER, 2, "job")


def test_a_budget_of_the_day_is_shared_out_until_midnight() -> None:
    spent = Spent(EVENING, Fraction(40), {"vision": Fraction(30)})
    assert spent.hours_left == 6
    assert hourly_room(Guards(daily=100), spent, "vision") == 10
    assert hourly_room(Guards(daily=100, teams=(("vision", TeamGuard(36)),)), spent, "vision") == 1
    assert hourly_room(Guards(), spent, "vision") is None


def test_a_budget_that_is_overdrawn_leaves_less_than_nothing() -> None:
    room = hourly_room(Guards(daily=10), Spent(EVENING, Fraction(40)), "vision")
    assert room is not None and room < 0


def test_machines_at_most() -> None:
    assert [instance_room(Guards(max_instances=n), Spent(EVENING, instances=3)) for n in (2, 3, 5)] == [0, 0, 2]
    assert instance_room(Guards(), Spent(EVENING, instances=3)) is None


LISTS = {
    "no lists allow all": (Guards(), True),
    "a pattern": (Guards(offerings=("spot-*",)), True),
    "another pattern": (Guards(offerings=("on-demand-*",)), False),
    "both lists must allow": (Guards(offerings=("spot-*",), regions=("west",)), False),
    "a type": (Guards(instance_types=("p5.*", "p4d.*")), True),
    "a team bound elsewhere": (Guards(teams=(("vision", TeamGuard(regions=("eu",))),)), False),
    "another team bound elsewhere": (Guards(teams=(("audio", TeamGuard(regions=("eu",))),)), True),
}


@pytest.mark.parametrize(("guards", "allowed"), LISTS.values(), ids=LISTS)
def test_what_may_be_bought_at_all(guards: Guards, allowed: bool) -> None:
    assert on_the_lists(OFFER, guards, "vision") is allowed


ASKS = {
    "without thresholds nobody is asked": (Guards(), None, False),
    "at the threshold nobody is": (Guards(approve_above=24), None, False),
    "above it somebody is": (Guards(approve_above=23), None, True),
    "a long job costs more in all": (Guards(approve_total_above=100), timedelta(hours=5), True),
    "a short one less": (Guards(approve_total_above=100), timedelta(hours=4), False),
    "who declares nothing is taken to stay a day": (Guards(approve_total_above=575), None, True),
}


@pytest.mark.parametrize(("guards", "runtime", "asks"), ASKS.values(), ids=ASKS)
def test_who_must_be_asked(guards: Guards, runtime: timedelta | None, asks: bool) -> None:
    assert needs_a_person(TWO, runtime, guards) is asks
