"""How a gang is divided over domains, and how its ranks follow the topology."""

from __future__ import annotations

import pytest
from tests.builders import node, pending, plan_of, pods, where

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
