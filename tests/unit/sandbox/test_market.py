"""The small cloud in the in-process world."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.sandbox.worlds import PretendedSite, ask, pretended, reasons, whole

from gpufleet.errors import Invalid, NoCapacity, NotFound, Refused
from gpufleet.model.hardware import NodeState
from gpufleet.sandbox import gangs, machines, market, views
from gpufleet.sandbox.caretaker import turn
from gpufleet.sandbox.records import Bought, InstanceState, Notice

SPOT, NODE = "spot-h100-a", "spot-a0"


@pytest.fixture
def world(tmp_path: Path) -> PretendedSite:
    return pretended(tmp_path)


def buy(world: PretendedSite, count: int, token: str = "t1", offering: str = SPOT) -> tuple[Bought, ...]:
    with turn(world.site):
        return market.launch(world.site, offering, count, token)


def reclaim(world: PretendedSite, node: str = NODE, *, then_unavailable: bool = False) -> Notice:
    with turn(world.site):
        return market.reclaim(world.site, node, then_unavailable=then_unavailable)


def left(world: PretendedSite) -> int:
    return world.site.book.stock[SPOT].available


def shown(world: PretendedSite) -> dict[str, str]:
    return {node["name"]: str(node["state"]) for node in views.observation(world.site)["nodes"]}


class TestLaunch:
    def test_all_of_them_join_after_the_delay(self, world: PretendedSite) -> None:
        bought = buy(world, 2)
        assert [(one.name, one.state) for one in bought] == [
            ("i-628b49d9-0", InstanceState.PENDING),
            ("i-628b49d9-1", InstanceState.PENDING),
        ]
        world.pass_time(0.1)
        assert not shown(world).keys() & {one.name for one in bought}
        world.pass_time(0.1)
        assert shown(world).keys() >= {one.name for one in bought}
        assert {world.site.book.instances[one.name].state for one in bought} == {InstanceState.READY}

    def test_the_node_is_what_was_sold(self, world: PretendedSite) -> None:
        (bought,) = buy(world, 1)
        world.pass_time(1)
        node = views.node(world.site.book.machines[bought.name])
        assert (node["model"], len(node["devices"]), node["position"]) == ("H100-80", 8, ("zone-a", "leaf-a1"))
        assert (node["instance"], node["capacity"], node["provider"]) == (bought.name, "spot", "sandbox")

    def test_the_same_token_finds_the_same_machines(self, world: PretendedSite) -> None:
        first = [one.name for one in buy(world, 2)]
        assert [one.name for one in buy(world, 2)] == first
        assert left(world) == 2

    def test_a_token_does_not_buy_something_else(self, world: PretendedSite) -> None:
        buy(world, 2)
        with pytest.raises(Refused, match="Token t1 bought 2 of spot-h100-a before"):
            buy(world, 3)

    def test_all_or_none(self, world: PretendedSite) -> None:
        with pytest.raises(NoCapacity, match="spot-h100-a has 4 machines left; 5 were asked for"):
            buy(world, 5)
        assert left(world) == 4

    def test_what_is_not_sold_is_not_found(self, world: PretendedSite) -> None:
        with pytest.raises(NotFound, match="does not sell an offering a-horse"):
            buy(world, 1, offering="a-horse")

    def test_nothing_cannot_be_bought(self, world: PretendedSite) -> None:
        with pytest.raises(Invalid):
            buy(world, 0)

    def test_what_was_pending_joins_after_a_restart(self, world: PretendedSite) -> None:
        (bought,) = buy(world, 1)
        later = world.restarted()
        later.pass_time(1)
        assert bought.name in shown(later)


class TestTerminate:
    def test_the_node_leaves_with_its_pods(self, world: PretendedSite) -> None:
        gangs.launch(world.site, ask("a", whole(NODE, 0)))
        self.terminate(world)
        world.pass_time(0)
        assert NODE not in shown(world)
        assert reasons(world.site) == {"a-1-0": "lost/node-lost"}
        assert world.site.book.instances[NODE].state is InstanceState.TERMINATED

    def test_it_can_be_sold_again(self, world: PretendedSite) -> None:
        self.terminate(world)
        self.terminate(world)
        assert left(world) == 5

    def test_one_that_never_joined_never_will(self, world: PretendedSite) -> None:
        (bought,) = buy(world, 1)
        self.terminate(world, bought.name)
        world.pass_time(1)
        assert bought.name not in shown(world)

    def test_a_stranger_is_done(self, world: PretendedSite) -> None:
        self.terminate(world, "i-never")

    def test_it_is_told_of_for_an_hour(self, world: PretendedSite) -> None:
        self.terminate(world)
        world.pass_time(3600)
        assert NODE in {one.name for one in market.instances(world.site)}
        world.pass_time(1)
        assert NODE not in {one.name for one in market.instances(world.site)}

    def terminate(self, world: PretendedSite, name: str = NODE) -> None:
        with turn(world.site):
            market.terminate(world.site, name)


class TestReclaim:
    def test_pods_hear_it_at_once(self, world: PretendedSite) -> None:
        gangs.launch(world.site, ask("a", whole(NODE, 0)))
        notice = reclaim(world)
        assert [number for _, number in world.runner.heard] == [signal.SIGTERM]
        assert notice.deadline - notice.at == timedelta(seconds=10)
        assert shown(world)[NODE] == NodeState.RECLAIMING
        world.pass_time(0)
        assert reasons(world.site) == {"a-1-0": "failed/evicted"}

    def test_at_the_deadline_whoever_stayed_is_lost(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        gangs.launch(world.site, ask("a", whole(NODE, 0)))
        reclaim(world)
        world.pass_time(9.9)
        assert not world.pod("a").is_over
        world.pass_time(0.1)
        assert shown(world)[NODE] == NodeState.LOST
        world.pass_time(0.1)
        world.pass_time(0)
        assert (reasons(world.site), world.pod("a").exit_code) == ({"a-1-0": "lost/node-lost"}, 137)
        world.pass_time(2)
        assert NODE not in shown(world)

    def test_the_instance_is_terminated_and_not_sold_again(self, world: PretendedSite) -> None:
        reclaim(world)
        assert world.site.book.instances[NODE].state is InstanceState.RECLAIMING
        world.pass_time(10)
        assert (world.site.book.instances[NODE].state, left(world)) == (InstanceState.TERMINATED, 4)

    def test_hearing_it_twice_is_once(self, world: PretendedSite) -> None:
        first = reclaim(world)
        world.pass_time(3)
        assert reclaim(world) == first

    def test_then_nothing_more_may_be_left(self, world: PretendedSite) -> None:
        reclaim(world, then_unavailable=True)
        with pytest.raises(NoCapacity):
            buy(world, 1)

    def test_the_notice_is_seen_until_an_hour_after_the_end(self, world: PretendedSite) -> None:
        reclaim(world)
        world.pass_time(10)
        world.pass_time(3600)
        assert [notice["id"] for notice in views.observation(world.site)["notices"]] == [NODE]
        world.pass_time(1)
        assert views.observation(world.site)["notices"] == []

    def test_what_is_owned_cannot_be_reclaimed(self, world: PretendedSite) -> None:
        with pytest.raises(Refused, match="res-0 is no instance of the cloud"):
            reclaim(world, "res-0")

    def test_a_trace_is_followed_once(self, tmp_path: Path) -> None:
        world = pretended(tmp_path, reclaims=[{"at": "30s", "node": NODE}])
        world.pass_time(29.9)
        assert shown(world)[NODE] == NodeState.READY
        world.pass_time(0.1)
        assert shown(world)[NODE] == NodeState.RECLAIMING
        for _ in range(3):
            world.pass_time(10)
        assert (NODE in shown(world), len(world.site.book.notices)) == (False, 1)

    def test_a_reclaim_goes_on_after_a_restart(self, world: PretendedSite) -> None:
        reclaim(world)
        later = world.restarted()
        later.pass_time(10)
        assert shown(later)[NODE] == NodeState.LOST


class TestFail:
    def test_without_notice(self, world: PretendedSite) -> None:
        gangs.launch(world.site, ask("a", whole(NODE, 0)))
        self.fail(world, NODE)
        world.pass_time(0)
        assert (shown(world)[NODE], reasons(world.site)) == (NodeState.LOST, {"a-1-0": "lost/node-lost"})
        assert market.notices(world.site) == []

    def test_an_owned_machine_stays_lost(self, world: PretendedSite) -> None:
        self.fail(world, "res-0")
        self.fail(world, "res-0")
        world.pass_time(3600)
        assert shown(world)["res-0"] == NodeState.LOST

    def test_pods_elsewhere_go_on(self, world: PretendedSite) -> None:
        gangs.launch(world.site, ask("a", whole(NODE, 0), whole("res-0", 0)))
        self.fail(world, NODE)
        world.pass_time(0)
        assert reasons(world.site) == {"a-1-0": "lost/node-lost", "a-1-1": "running/"}

    def test_a_stranger_is_not_found(self, world: PretendedSite) -> None:
        with pytest.raises(NotFound, match="Node nowhere does not exist"):
            self.fail(world, "nowhere")

    def fail(self, world: PretendedSite, node: str) -> None:
        with turn(world.site):
            machines.fail(world.site, node)
