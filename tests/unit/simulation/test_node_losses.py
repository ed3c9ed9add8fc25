"""Nodes that go and come back, in simulated time: who stops, what is lost, where nobody goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from gpufleet.simulation.fleet.faults import Fault, faults
from gpufleet.simulation.fleet.kube import KubeDefault
from gpufleet.simulation.fleet.ours import Ours
from gpufleet.simulation.fleet.spec import Faults, Fleet, Spec
from gpufleet.simulation.fleet.study import POLICIES, THROUGHPUT, study
from gpufleet.simulation.fleet.workload import Work
from gpufleet.simulation.fleet.world import Policy, World

HOUR, DAY = 3600.0, 86_400.0
SPEC = Spec(fleet=Fleet(nodes=2), jobs=60, pairs=((2 * HOUR, 1), (3 * HOUR, 4), (5 * HOUR, 8)))
STORMY = replace(SPEC, fleet=Fleet(nodes=4, per_leaf=2), faults=Faults(every=DAY, away=HOUR, noticed=0.5))
SAVES = Work("a", 0.0, 9 * HOUR, 8, 20 * HOUR, HOUR)
END = Work("z", 12 * HOUR, 1.0, 1, 1.0)


def lived(policy: str, works: Sequence[Work], *lost: Fault) -> World:
    """A world in which these nodes were lost."""
    world = World(SPEC)
    chosen: Policy = Ours(world, THROUGHPUT) if policy == "gpufleet" else KubeDefault(world, Random(1))
    world.run(works, chosen, faults=lost)
    return world


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_on_a_lost_node_goes_on_elsewhere_from_its_last_save(policy: str) -> None:
    node = lived(policy, [SAVES, END]).jobs["a"].nodes[0]
    world = lived(policy, [SAVES, END], Fault(node, None, 2.5 * HOUR, 11 * HOUR))
    job = world.jobs["a"]
    assert job.nodes == (1 - node,) and world.counts.interruptions == 1 and world.counts.evictions == 0
    assert world.counts.lost == pytest.approx(8 * HOUR / 2)
    assert job.ended == pytest.approx(9.5 * HOUR + SPEC.speed.restart)


def test_with_a_notice_nothing_is_lost_but_the_minutes_until_the_end() -> None:
    node = lived("gpufleet", [SAVES, END]).jobs["a"].nodes[0]
    world = lived("gpufleet", [SAVES, END], Fault(node, 2.5 * HOUR, 2.5 * HOUR + 120, 11 * HOUR))
    assert world.counts.lost == pytest.approx(8 * 120)


def test_nothing_new_goes_to_a_node_that_will_leave() -> None:
    late = Work("b", 1.5 * HOUR, HOUR, 1, HOUR)
    node = lived("gpufleet", [late, END]).jobs["b"].nodes[0]
    world = lived("gpufleet", [late, END], Fault(node, HOUR, 2 * HOUR, 3 * HOUR))
    assert world.jobs["b"].nodes == (1 - node,) and world.counts.interruptions == 0


@pytest.mark.parametrize("policy", ["kube-default", "gpufleet"])
def test_a_node_that_is_back_takes_work_again(policy: str) -> None:
    wide = Work("w", 5 * HOUR, HOUR, 16, 2 * HOUR)
    world = lived(policy, [wide, END], Fault(0, None, HOUR, 6 * HOUR))
    assert world.jobs["w"].first_start == 6 * HOUR


def test_without_a_gang_scheduler_the_rest_of_a_gang_holds_its_gpus_until_the_node_is_back() -> None:
    wide = Work("w", 0.0, 4 * HOUR, 16, 8 * HOUR, HOUR)
    waits = Work("x", 1.5 * HOUR, HOUR, 8, HOUR)
    world = lived("kube-default", [wide, waits, END], Fault(0, None, HOUR, 3 * HOUR))
    assert world.jobs["x"].first_start is None or world.jobs["x"].first_start > 3 * HOUR
    assert world.counts.losses.held == pytest.approx(8 * 2 * HOUR)


def test_losses_are_off_unless_asked_for_and_the_same_for_every_policy() -> None:
    assert list(faults(SPEC, Random(1), 100 * DAY)) == []
    assert list(faults(STORMY, Random(1), 30 * DAY)) == list(faults(STORMY, Random(1), 30 * DAY)) != []


def test_as_many_nodes_go_as_the_spec_says_and_never_one_that_is_gone() -> None:
    found = list(faults(STORMY, Random(3), 500 * DAY))
    assert len(found) == pytest.approx(4 * 500, rel=0.1)
    assert sum(f.noticed is not None for f in found) == pytest.approx(len(found) / 2, rel=0.1)
    for node in range(4):
        mine = [f for f in found if f.node == node]
        assert all(before.back <= after.lost for before, after in pairwise(mine))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_storm_costs_work_and_stays_below_the_bound(policy: str) -> None:
    (calm,) = study(replace(STORMY, faults=Faults()), policy, [5], Random)
    (storm,) = study(STORMY, policy, [5], Random)
    assert storm.interruptions > 0 == calm.interruptions
    assert storm.effective_throughput < calm.effective_throughput <= calm.bound == storm.bound
