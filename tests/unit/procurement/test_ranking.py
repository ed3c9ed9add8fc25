"""Where a whole gang is tried next, told as small stories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.spot.ranking import Candidate, Failure, Ranked, Refusal, ranked

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def offering(zone: str, price: str, cloud: str = "gcp", *, available: bool = True) -> Offering:
    region = zone.rsplit("-", 1)[0]
    name, kind = f"{cloud}/{zone}", "a3-highgpu-8g"
    return Offering(name, cloud, region, zone, kind, CapacityType.SPOT, "H100", 8, Fraction(price), available=available)


EAST = Candidate(offering("us-east4-a", "14.85"), 2, 2.0)
EAST_B = Candidate(offering("us-east4-b", "14.85"), 2, 1.9)
CENTRAL = Candidate(offering("us-central1-a", "18.98"), 2, 20.0)
ABROAD = Candidate(offering("eu-west-1", "14.00", "aws"), 2, 20.0, egress=Fraction(900))


def rank(*candidates: Candidate, failures: tuple[Failure, ...] = ()) -> tuple[Ranked, ...]:
    return ranked(candidates, failures, NOW, start_hours=0.2, lost_hours=0.5, work_hours=40)


def first(*candidates: Candidate, failures: tuple[Failure, ...] = ()) -> str:
    return rank(*candidates, failures=failures)[0].candidate.offering.zone


def refused(candidate: Candidate, why: Refusal, minutes: int) -> Failure:
    return Failure(candidate.offering, NOW - timedelta(minutes=minutes), why)


STORIES = {
    "a dearer zone that lasts beats a cheap one that flaps": ((EAST, CENTRAL), (), "us-central1-a"),
    "of two that last alike the cheaper": ((EAST, Candidate(offering("us-west1-a", "18.98"), 2, 2.0)), (), "us-east4-a"),
    "egress counts": ((CENTRAL, ABROAD), (), "us-central1-a"),
    "what was refused just now is not tried again": ((CENTRAL, EAST), (refused(CENTRAL, Refusal.CAPACITY, 1),), "us-east4-a"),
    "what was refused a while ago is": ((CENTRAL, EAST), (refused(CENTRAL, Refusal.CAPACITY, 5),), "us-central1-a"),
    "a refused quota shuts the whole region": ((EAST_B, CENTRAL, EAST), (refused(CENTRAL, Refusal.QUOTA, 30),), "us-east4-a"),
    "and its other zones": ((EAST_B, ABROAD), (refused(EAST, Refusal.QUOTA, 30),), "eu-west-1"),
}  # fmt: skip


@pytest.mark.parametrize(("candidates", "failures", "want"), STORIES.values(), ids=STORIES)
def test_who_is_tried_first(candidates: tuple[Candidate, ...], failures: tuple[Failure, ...], want: str) -> None:
    assert first(*candidates, failures=failures) == want


def test_the_others_say_why_not() -> None:
    brief = Candidate(offering("us-west1-b", "10.00"), 2, 0.6)
    gone = Candidate(offering("us-west4-a", "10.00", available=False), 2, 9.0)
    found = rank(brief, gone, EAST, failures=(refused(EAST, Refusal.CAPACITY, 2),))
    assert [r.cost for r in found] == [None, None, None]
    assert {r.candidate.offering.zone: r.reason for r in found} == {
        "us-east4-a": "refused 2 min ago for want of capacity",
        "us-west1-b": "expected to last 0.6 h, no longer than a start and what is lost",
        "us-west4-a": "not sold at the moment",
    }


def test_the_estimate_is_price_by_hours_that_bring_work() -> None:
    (found,) = rank(Candidate(offering("us-east4-a", "10.00"), 2, 4.7, egress=Fraction(40)))
    assert found.cost == pytest.approx((20 * 4.7 + 40) / 4.0)
    assert found.reason == "20.00 an hour, lasts 4.7 h, of which 4.0 h bring work, egress 40.00"
