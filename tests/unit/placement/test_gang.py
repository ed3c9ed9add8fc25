"""How a gang is divided over domains, and how its ranks follow the topology."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.builders import job, node, pending, plan_of, pods, where

from gpufleet.model.workload import PodSet
from gpufleet.placement import Gang, Ledger, Topology, place_gang
from gpufleet.placement.binpack import assign
from gpufleet.placement.fill import NoRoom
from gpufleet.placement.gang import balanced, fewest

SIZED = [(3, ["a"]), (3, ["b"]), (2, ["c"]), (1, ["d"])]


def test_the_fewest_domains_the_last_the_smallest_that_completes() -> None:
    assert [size for size, _ in fewest(SIZED, 7)] == [1, 3, 3]
    assert [size for size, _ in fewest(SIZED, 2)] == [2]
    with pytest.raises(NoRoom):
        fewest(SIZED, 10)


def test_pods_are_spread_evenly_over_the_chosen_domains() -> None:
    assert balanced([4, 4], 6) == [3, 3]
    assert balanced([1, 3, 3], 7) == [1, 3, 3]
    assert balanced([2, 10], 8) == [2, 6]


def test_ranks_run_along_the_topology() -> None:
    nodes = [node(f"n{i}", gpus=2, path=f"s1/l{i % 2}") for i in range(4)]
    plan = plan_of(*nodes, pending("p", pods(8, gpus=1)))
    assert [n for n, _ in where(plan, "p")] == ["n0", "n0", "n2", "n2", "n1", "n1", "n3", "n3"]


def test_workers_stand_near_their_leader() -> None:
    nodes = [node("a", gpus=4, path="s1/l2"), node("b", gpus=3, path="s1/l1"), node("c", gpus=4, path="s1/l2")]
    plan = plan_of(*nodes, pending("p", pods(1, gpus=4), pods(3, gpus=2)))
    leader, *workers = [n for n, _ in where(plan, "p")]
    assert leader in ("a", "c") and workers[0] in ("a", "c")


def test_an_exact_assignment_is_found_where_greedy_fails() -> None:
    found = assign([(3, 0, 0), (3, 0, 0), (4, 0, 0), (2, 0, 0), (2, 0, 0)], [(7, 1, 1), (7, 1, 1)])
    assert found is not None
    load = [sum((3, 3, 4, 2, 2)[i] for i, n in enumerate(found) if n == k) for k in (0, 1)]
    assert load == [7, 7]


def test_what_cannot_be_assigned_is_none() -> None:
    assert assign([(4, 0, 0), (4, 0, 0)], [(7, 1, 1)]) is None
    assert assign([(1, 8, 0)], [(7, 4, 1)]) is None


SHARED = {
    "a leader and workers of its size": ([pods(gpus=8), pods(7, gpus=8)], [32, 32]),
    "a smaller leader": ([pods(gpus=4), pods(7, gpus=8)], [28, 32]),
    "two sets of one size, each in its leaf": ([pods(4, gpus=8), pods(4, gpus=8)], [32, 32]),
    "many small and some large": ([pods(4, gpus=4), pods(6, gpus=8)], [32, 32]),
    "an odd number": ([pods(gpus=8), pods(6, gpus=8)], [24, 32]),
    "all of both leaves": ([pods(2, gpus=4), pods(9, gpus=8)], [40, 40]),
}


@pytest.mark.parametrize(("sets", "leaves"), SHARED.values(), ids=SHARED.keys())
def test_several_pod_sets_share_the_leaves_evenly(sets: list[PodSet], leaves: list[int]) -> None:
    fleet = [node(f"{leaf}{i}", path=f"s1/{leaf}") for leaf in "ab" for i in range(5)]
    ledger, topology = Ledger(fleet), Topology(("spine", "leaf"), fleet)
    wanted = job("g", *sets)
    places = place_gang(ledger, topology, Gang(wanted, wanted.pods, {"H100-80": [n.name for n in fleet]}))
    assert places is not None and len(places) == wanted.pods
    held = Counter[str]()
    for place in places:
        held[place.node[0]] += len(place.gpus)
    assert sorted(held.values()) == leaves
    assert [Counter(p.pod_set for p in places)[i] for i in range(len(sets))] == [s.count for s in sets]
