"""Compute Engine through the real SDK: what is asked for, how operations end, what is read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.fronts import KilledHere, killing
from tests.gcp_worlds import GcpWorld, gcp_world, nics, offering, refused

from gpufleet.clouds.asking import Asking
from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.clouds.joining import Join
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, UnderWay
from gpufleet.model.capacity import CapacityType


@pytest.fixture
def world() -> Iterator[GcpWorld]:
    with gcp_world() as world:
        yield world


def asked(world: GcpWorld) -> dict:
    return world.faults.heard_of("POST instances/bulkInsert")[-1].json


class TestWhatALaunchAsksFor:
    def test_all_or_none_under_names_of_our_own(self, world: GcpWorld) -> None:
        bought = world.cloud().launch("spot-a", 2, token="op-1")
        told = asked(world)
        assert (int(told["count"]), int(told["minCount"])) == (2, 2)
        assert sorted(told["perInstanceProperties"]) == [instance.name for instance in bought]
        assert all(re.fullmatch(r"gf-[0-9a-f]{6}-[0-9a-f]{16}-[01]", instance.name) for instance in bought)
        properties = told["instanceProperties"]
        assert properties["scheduling"] == {
            "provisioningModel": "SPOT",
            "instanceTerminationAction": "DELETE",
            "onHostMaintenance": "TERMINATE",
            "automaticRestart": False,
        }
        assert properties["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}

    def test_a_gang_is_kept_close_and_has_every_data_card(self, world: GcpWorld) -> None:
        sold = offering("gang", CapacityType.ON_DEMAND, fabric="tcpxo")
        world.cloud(world.sale(sold, nics=nics(8), placement_policy="compact")).launch("gang", 2, token="op-2")
        properties = asked(world)["instanceProperties"]
        assert len(properties["networkInterfaces"]) == 9
        assert properties["resourcePolicies"] == ["projects/p1/regions/us-central1/resourcePolicies/compact"]

    @pytest.mark.parametrize(("fabric", "data"), [("tcpx", 8), ("tcpxo", 4), ("tcpx", 0)])
    def test_a_wrong_number_of_cards_is_told_before_anything_is_bought(
        self, world: GcpWorld, fabric: str, data: int
    ) -> None:
        sale = world.sale(offering("gang", fabric=fabric), nics=nics(data))
        with pytest.raises(BadRequest, match="networks"):
            world.cloud(sale).launch("gang", 1, token="op-3")
        assert world.running() == []

    def test_machines_of_a_reservation_and_of_flex_start(self, world: GcpWorld) -> None:
        reserved = world.sale(offering("r", CapacityType.RESERVED), reservation="mine")
        flex = world.sale(offering("f", CapacityType.ON_DEMAND), flex_start=timedelta(hours=12))
        cloud = world.cloud(reserved, flex)
        cloud.launch("r", 1, token="op-4")
        affinity = asked(world)["instanceProperties"]["reservationAffinity"]
        assert (affinity["consumeReservationType"], affinity["values"]) == ("SPECIFIC_RESERVATION", ["mine"])
        cloud.launch("f", 1, token="op-5")
        scheduling = asked(world)["instanceProperties"]["scheduling"]
        assert (scheduling["provisioningModel"], scheduling["maxRunDuration"]) == ("FLEX_START", {"seconds": "43200"})

    def test_user_data_joins_the_cluster(self, world: GcpWorld) -> None:
        world.cloud(join=Join("east", "labels=${labels}")).launch("spot-a", 1, token="op-6")
        metadata = {item["key"]: item["value"] for item in asked(world)["instanceProperties"]["metadata"]["items"]}
        assert "topology.kubernetes.io/zone=us-central1-a" in metadata["user-data"]
        assert metadata["gpufleet-token"] == "op-6"


ANSWERS = {
    ("rateLimitExceeded", 403): Throttled,
    ("quotaExceeded", 403): QuotaReached,
    ("forbidden", 403): NoAccess,
    ("backendError", 503): NotAnswered,
    ("invalid", 400): BadRequest,
}
ENDS = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": NoCapacity,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": NoCapacity,
    "STOCKOUT": NoCapacity,
    "QUOTA_EXCEEDED": QuotaReached,
    "RESOURCE_NOT_FOUND": NotFound,
    "INVALID_USAGE": BadRequest,
}


class TestRefusals:
    @pytest.mark.parametrize(("said", "meant"), ANSWERS.items(), ids=[reason for reason, _ in ANSWERS])
    def test_what_an_answer_means(self, world: GcpWorld, said: tuple[str, int], meant: type[GpufleetError]) -> None:
        world.faults.refuse("POST instances/bulkInsert", refused(*said), times=99)
        with pytest.raises(meant):
            world.cloud(patience=0.0).launch("spot-a", 1, token="op-7")

    @pytest.mark.parametrize(("code", "meant"), ENDS.items(), ids=ENDS)
    def test_what_the_end_of_an_operation_means(self, world: GcpWorld, code: str, meant: type[GpufleetError]) -> None:
        world.ends_with, world.short_by = [code], 1
        with pytest.raises(meant, match=code):
            world.cloud().launch("spot-a", 2, token="op-8")
        assert world.running() == []  # one had begun

    def test_throttling_is_waited_out(self, world: GcpWorld) -> None:
        world.faults.refuse("POST instances/bulkInsert", refused("rateLimitExceeded", 403), times=3)
        assert len(world.cloud().launch("spot-a", 1, token="op-9")) == 1

    def test_a_lost_answer_buys_once(self, world: GcpWorld) -> None:
        world.faults.lose_answers("POST instances/bulkInsert")
        assert len(world.cloud().launch("spot-a", 2, token="op-10")) == 2
        assert len(world.running()) == 2

    def test_an_operation_that_takes_long_is_under_way_and_found_again(self, world: GcpWorld) -> None:
        world.looks = 3
        with pytest.raises(UnderWay):
            world.cloud(patience=0.0).launch("spot-a", 2, token="op-11")
        assert len(world.cloud().launch("spot-a", 2, token="op-11")) == 2
        assert len(world.running()) == 2

    def test_what_cannot_be_given_back_is_named(self, world: GcpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        world.ends_with, world.short_by = ["STOCKOUT"], 1
        world.faults.refuse("DELETE instances", refused("backendError", 503), times=99)
        cloud = world.cloud(patience=3.0)
        with pytest.raises(NoCapacity) as told:
            cloud.launch("spot-a", 2, token="op-12")
        (left,) = world.running()
        assert left in str(told.value)
        assert [i.name for i in cloud.instances()] == [left]


class TestWhatIsReadBack:
    def test_every_page_of_what_runs_and_nothing_of_another_fleet(self, world: GcpWorld) -> None:
        world.cloud().launch("spot-a", 2, token="op-13")
        world.cloud(fleet="f2").launch("spot-a", 1, token="op-13")
        found = world.cloud().instances()
        assert [(i.token, i.offering, i.zone, i.state) for i in found] == [
            ("op-13", "spot-a", "us-central1-a", "ready")
        ] * 2
        assert found[0].launched_at.isoformat() == "2026-12-01T00:00:00+00:00"

    def test_a_preemption_is_told_until_it_is_written_down(self, world: GcpWorld) -> None:
        cloud = world.cloud()
        (mine,) = cloud.launch("spot-a", 1, token="op-14")
        (other,) = world.cloud(fleet="f2").launch("spot-a", 1, token="op-14")
        world.preempt(mine.name)
        world.preempt(other.name)
        (notice,) = cloud.notices()
        assert (notice.instance, notice.kind, notice.deadline - notice.at) == (mine.name, "spot", timedelta(seconds=30))
        cloud.heard([notice])
        assert cloud.notices() == ()

    def test_block_and_subblock_are_the_position(self, world: GcpWorld) -> None:
        cloud = world.cloud()
        (mine,) = cloud.launch("spot-a", 1, token="op-15")
        at = {"cluster": "c1", "block": "b1", "subblock": "s1", "host": "h1"}
        world.instances[mine.name]["resourceStatus"] = {"physicalHostTopology": at}
        assert cloud.positions([mine.name]) == {mine.name: ("us-central1-a", "c1", "b1", "s1")}


class TestReservations:
    def test_made_once_found_again_and_cancelled(self, world: GcpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        cloud = world.cloud()
        with monkeypatch.context() as patch:
            patch.setattr(Asking, "once", _dies_after_writing(Asking.once))
            with pytest.raises(KilledHere):
                cloud.reserve("spot-a", 2, token="op-16")
        made = world.cloud().reserve("spot-a", 2, token="op-16")
        assert (made.count, made.state, made.token, made.offering) == (2, "active", "op-16", "spot-a")
        assert [one.id for one in cloud.reservations()] == [made.id]
        cloud.cancel(made.id)
        assert cloud.reservations() == ()


def _dies_after_writing(once):  # type: ignore[no-untyped-def]
    return lambda self, call: once(self, killing(call, after=True))
