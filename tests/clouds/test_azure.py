"""Azure through the real SDK: what a scale set asks for, how it fails, what its prices say."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from fractions import Fraction

import pytest
from tests.azure_worlds import AzureWorld, azure_world, offering, refused

from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.clouds.joining import Join
from gpufleet.errors import GpufleetError, NoCapacity, Refused, UnderWay
from gpufleet.model.capacity import CapacityType

PUT = "PUT virtualMachineScaleSets"


@pytest.fixture
def world() -> Iterator[AzureWorld]:
    with azure_world() as world:
        yield world


def asked(world: AzureWorld) -> dict:
    return world.faults.heard_of(PUT)[-1].json


class TestWhatALaunchAsksFor:
    def test_one_set_one_placement_group_nothing_beyond_what_was_asked(self, world: AzureWorld) -> None:
        world.cloud(join=Join("east", "labels=${labels}")).launch("spot-a", 2, token="op-1")
        told = asked(world)
        properties = told["properties"]
        assert (told["sku"]["capacity"], told["zones"]) == (2, ["1"])
        assert (properties["orchestrationMode"], properties["singlePlacementGroup"]) == ("Flexible", True)
        assert properties["overprovision"] is False
        profile = properties["virtualMachineProfile"]
        assert (profile["priority"], profile["evictionPolicy"]) == ("Spot", "Delete")
        assert profile["billingProfile"] == {"maxPrice": -1}
        assert "gpufleet.io/capacity=spot" in b64decode(profile["osProfile"]["customData"]).decode()

    def test_on_demand_has_no_priority_and_ethernet_needs_no_single_group(self, world: AzureWorld) -> None:
        world.cloud(world.sale(offering("o", CapacityType.ON_DEMAND, fabric=""))).launch("o", 1, token="op-2")
        properties = asked(world)["properties"]
        assert properties["singlePlacementGroup"] is False
        assert "priority" not in properties["virtualMachineProfile"]

    def test_a_reservation_group(self, world: AzureWorld) -> None:
        sale = world.sale(offering("r", CapacityType.RESERVED), reservation_group="/crg/1")
        world.cloud(sale).launch("r", 1, token="op-3")
        found = asked(world)["properties"]["virtualMachineProfile"]["capacityReservation"]
        assert found == {"capacityReservationGroup": {"id": "/crg/1"}}


ANSWERS = {
    "SkuNotAvailable": (NoCapacity, 409, "x"),
    "OverconstrainedAllocationRequest": (NoCapacity, 409, "x"),
    "QuotaExceeded": (QuotaReached, 409, "x"),
    "OperationNotAllowed": (QuotaReached, 409, "results in exceeding approved standardNDSv5 Cores quota"),
    "TooManyRequests": (Throttled, 429, "x"),
    "AuthorizationFailed": (NoAccess, 403, "x"),
    "InternalServerError": (NotAnswered, 500, "x"),
    "InvalidParameter": (BadRequest, 400, "x"),
}
FAILURES = {
    "AllocationFailed": NoCapacity,
    "ZonalAllocationFailed": NoCapacity,
    "OverconstrainedZonalAllocationRequest": NoCapacity,
    "QuotaExceeded": QuotaReached,
}


class TestRefusals:
    @pytest.mark.parametrize(("code", "said"), ANSWERS.items(), ids=ANSWERS)
    def test_what_an_answer_means(
        self, world: AzureWorld, code: str, said: tuple[type[GpufleetError], int, str]
    ) -> None:
        meant, status, message = said
        world.faults.refuse(PUT, refused(code, status, message), times=99)
        with pytest.raises(meant, match=code):
            world.cloud(patience=0.0).launch("spot-a", 1, token="op-4")
        assert world.running() == []

    @pytest.mark.parametrize(("code", "meant"), FAILURES.items(), ids=FAILURES)
    def test_a_set_that_failed_says_why_and_goes_with_all_that_had_come(
        self, world: AzureWorld, code: str, meant: type[GpufleetError]
    ) -> None:
        world.fails_with, world.short_by = [code], 1
        with pytest.raises(meant, match=code):
            world.cloud().launch("spot-a", 2, token="op-5")
        assert (world.running(), world.sets) == ([], {})

    def test_throttling_is_waited_out(self, world: AzureWorld) -> None:
        world.faults.refuse(PUT, refused("TooManyRequests", 429), times=3)
        assert len(world.cloud().launch("spot-a", 1, token="op-6")) == 1

    def test_a_lost_answer_buys_once(self, world: AzureWorld) -> None:
        world.faults.lose_answers(PUT)
        assert len(world.cloud().launch("spot-a", 2, token="op-7")) == 2
        assert len(world.running()) == 2
        assert len(world.faults.heard_of(PUT)) == 1

    def test_a_set_that_takes_long_is_under_way_and_found_again(self, world: AzureWorld) -> None:
        world.looks = 3
        with pytest.raises(UnderWay):
            world.cloud(patience=0.0).launch("spot-a", 2, token="op-8")
        assert len(world.cloud().launch("spot-a", 2, token="op-8")) == 2
        assert len(world.faults.heard_of(PUT)) == 1

    def test_what_cannot_be_given_back_is_named(self, world: AzureWorld) -> None:
        world.short_by = 1
        world.faults.refuse("DELETE virtualMachineScaleSets", refused("InternalServerError", 500), times=99)
        with pytest.raises(NoCapacity) as told:
            world.cloud(patience=3.0).launch("spot-a", 2, token="op-9")
        (left,) = world.running()
        assert left in str(told.value)

    def test_reservations_are_made_elsewhere(self, world: AzureWorld) -> None:
        with pytest.raises(Refused, match="capacity reservation group"):
            world.cloud().reserve("spot-a", 1, token="op-10")


class TestWhatIsReadBack:
    def test_an_evicted_machine_is_not_there_any_more(self, world: AzureWorld) -> None:
        cloud = world.cloud()
        first, second = cloud.launch("spot-a", 2, token="op-11")
        del world.machines[first.name]
        assert [i.name for i in cloud.instances()] == [second.name]

    def test_nothing_of_another_fleet(self, world: AzureWorld) -> None:
        world.cloud(fleet="f2").launch("spot-a", 1, token="op-12")
        assert world.cloud().instances() == ()


class TestEmptySets:
    def test_answer_for_their_token_for_a_day_and_then_go(self, world: AzureWorld) -> None:
        cloud = world.cloud()
        (old,) = cloud.launch("spot-a", 1, token="op-13")
        (kept,) = cloud.launch("spot-a", 1, token="op-14")
        cloud.terminate(old.name)
        assert cloud.launch("spot-a", 1, token="op-13") == ()
        for one in world.sets.values():
            one["properties"]["timeCreated"] = "2026-11-01T00:00:00+00:00"
        cloud.launch("spot-a", 1, token="op-15")
        assert sorted(one["tags"]["gpufleet-token"] for one in world.sets.values()) == ["op-14", "op-15"]
        assert kept.name in world.running()


class TestPrices:
    def test_spot_and_on_demand_of_the_retail_list(self, world: AzureWorld) -> None:
        world.prices |= {"ND96isr Low Priority": "19.66"}
        sold = world.sale(), world.sale(offering("o", CapacityType.ON_DEMAND))
        found = {o.name: (o.price, o.available) for o in world.cloud(*sold).offerings()}
        assert found == {"spot-a": (Fraction("12.1"), True), "o": (Fraction("98.32"), True)}

    @pytest.mark.parametrize("price", ["98.32", "120", "3"])
    def test_spot_is_compared_with_on_demand_also_where_that_is_not_sold(self, world: AzureWorld, price: str) -> None:
        world.prices["ND96isr Spot"] = price
        (found,) = world.cloud().offerings()
        assert (found.name, found.available) == ("spot-a", False)

    def test_two_prices_for_one_thing_are_none(self, world: AzureWorld) -> None:
        world.prices |= {"ND96isr v2 Spot": "13.00"}
        (found,) = world.cloud().offerings()
        assert not found.available
