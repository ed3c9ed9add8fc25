"""What would let a waiting job start: each way is told only where it works, and the cheapest first.

A story names the ways that must be told, in their order, and words of each. Every way that a change file can say is
then tried by a whole pass on the changed fleet: the job starts there, or the answer lied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import HOUR, MINUTE, NOW, node, nodes, on, pending, pods, queue, running, snapshot

from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import Explanation, explain, what_if
from gpufleet.scheduling.departures import MOST_STARTS

FULL = tuple(range(8))
POLICY = SchedulingPolicy()
KEPT: dict[str, Any] = {"preemptible": False, "hours": 4}
"""Running work that the pass itself leaves where it is."""


@dataclass(frozen=True)
class Way:
    """Facts, the job that asks, and what it is told."""

    facts: Sequence[Any]
    kinds: Sequence[str]
    says: Mapping[str, Sequence[str]] = field(default_factory=dict)
    job: str = "p"


def answer(fleet: Snapshot, job: str = "p") -> Explanation:
    return explain(fleet, POLICY, NOW, job)


WAYS = {
    "a declared end within the hour comes before everything": Way(
        [
            node(),
            running("soon", on("n1", *range(4)), runtime=4 * HOUR + 20 * MINUTE, **KEPT),
            running("late", on("n1", *range(4, 8)), runtime=9 * HOUR, **KEPT),
            pending("p", pods(gpus=4)),
        ],
        ["wait", "stop", "stop", "nodes"],
        {"wait": ["2026-01-01T00:20:00Z", "in 20m", "soon"]},
    ),
    "a long wait comes after what costs little, and is told with its hour": Way(
        [node(), running("late", on("n1", *FULL), runtime=9 * HOUR, **KEPT), pending("p", pods(gpus=4))],
        ["stop", "wait", "nodes"],
        {"wait": ["2026-01-01T05:00:00Z", "5h00m"]},
    ),
    "it waits for the last of several ends": Way(
        [
            node(),
            running("first", on("n1", *range(4)), runtime=4 * HOUR + 10 * MINUTE, **KEPT),
            running("last", on("n1", *range(4, 8)), runtime=4 * HOUR + 40 * MINUTE, **KEPT),
            pending("p", pods(gpus=8)),
        ],
        ["wait", "nodes"],
        {"wait": ["00:40:00Z", "last ends, the last of 2 jobs"]},
    ),
    "who never said when it ends promises nothing": Way(
        [node(), running("r", on("n1", *FULL), **KEPT), pending("p", pods(gpus=4))], ["stop", "nodes"]
    ),
    "who is past its declared end promises nothing": Way(
        [node(), running("r", on("n1", *FULL), runtime=HOUR, **KEPT), pending("p", pods(gpus=4))], ["stop", "nodes"]
    ),
    "a service is neither stopped nor waited for": Way(
        [node(), running("web", on("n1", *FULL), kind="inference", runtime=5 * HOUR), pending("p", pods(gpus=4))],
        ["nodes"],
    ),
    "what an elder would take is not promised": Way(
        [
            node(),
            running("r", on("n1", *FULL), runtime=5 * HOUR, **KEPT),
            pending("elder", pods(gpus=8), age=50 * MINUTE),
            pending("p", pods(gpus=8)),
        ],
        ["nodes"],
        {"nodes": ["2 more nodes with 8 H100-80"]},
    ),
    "a level as a preference": Way(
        [
            node("n0", path="s1/l1"),
            node("n1", path="s1/l2"),
            node("n2", path="s1/l2"),
            running("r", on("n1", 0), saved=40, **KEPT),
            running("q", on("n2", 0), saved=40, **KEPT),
            pending("p", pods(2, gpus=8), required="leaf"),
        ],
        ["pods", "gpus", "nodes"],
        {"nodes": ["1 more node", "leaf s1/l1"], "pods": ["1 of its 2 pods"]},
    ),
    "a required level that is in the way": Way(
        [
            node("n0", path="s1/l1"),
            node("n1", path="s1/l2"),
            pending("p", pods(2, gpus=8), required="leaf"),
        ],
        ["topology", "pods", "gpus", "nodes"],
        {"topology": ["leaf as a preference"]},
    ),
    "a guarantee that is used up": Way(
        [
            node(),
            queue("a", 2),
            queue("b", 6),
            running("r", on("n1", 0, 1), queue="a", **KEPT),
            pending("p", pods(gpus=2), preemptible=False),
        ],
        ["preemptible", "stop", "quota"],
        {"quota": ["deserved of 4 GPUs", "queue a"]},
    ),
    "a limit, and no node would help": Way(
        [
            node(),
            queue("a", 0, limit=4),
            running("r", on("n1", 0, 1, 2), queue="a", **KEPT),
            pending("p", pods(gpus=4)),
        ],
        ["stop", "gpus", "quota"],
        {"quota": ["limit of 7 GPUs", "queue a"], "gpus": ["1 instead of 4"]},
    ),
    "another capacity type": Way(
        [node("o", gpus=4), node("s", capacity="spot"), pending("p", pods(gpus=8), capacity=["owned"])],
        ["capacity-type", "gpus", "nodes"],
        {"capacity-type": ["spot"], "gpus": ["4 instead of 8"]},
    ),
    "another model": Way(
        [node("h", gpus=0), node("t", model="T4-16", gpus=4), pending("p", pods(gpus=4), models=("H100-80",))],
        ["gpu-type", "nodes"],
        {"gpu-type": ["T4-16"]},
    ),
    "a move, where all else stays": Way(
        [
            *nodes(2),
            running("r", on("n0", 0, 1), saved=40),
            running("k", on("n1", *range(6)), saved=90, **KEPT),
            pending("p", pods(gpus=8)),
        ],
        ["move", "stop", "stop", "gpus", "nodes"],
        {"move": ["moving r (2 GPUs, 40 min since its checkpoint) to n1"], "stop": ["the end of r"]},
    ),
    "of the running jobs the one with the least unsaved work": Way(
        [
            *nodes(2),
            running("dear", on("n0", *FULL), saved=30, **KEPT),
            running("cheap", on("n1", *range(7)), saved=5, **KEPT),
            pending("p", pods(gpus=4)),
        ],
        ["stop", "stop", "gpus", "nodes"],
        {"stop": ["cheap (7 GPUs, 5 min since its checkpoint)"]},
    ),
    "fewer pods, fewer GPUs, one node more": Way(
        [*nodes(3, model="T4-16", gpus=4), pending("p", pods(4, gpus=4))],
        ["pods", "gpus", "nodes"],
        {"pods": ["min_members of 3"], "gpus": ["2 instead of 4"], "nodes": ["1 more node with 4 T4-16"]},
    ),
    "less memory": Way(
        [
            node(gpus=1),
            running("r", on("n1", slices=["0:3g.40gb@0"]), kind="inference"),
            running("s", on("n1", slices=["0:2g.20gb@4"]), kind="inference"),
            pending("p", pods(slice_gib=39)),
        ],
        ["memory", "nodes"],
        {"memory": ["19.5 GiB"]},
    ),
    "a smaller profile": Way(
        [
            node(gpus=1),
            running("r", on("n1", slices=["0:3g.40gb@0"]), kind="inference"),
            running("s", on("n1", slices=["0:1g.10gb@6"]), kind="inference"),
            pending("p", pods(profile="3g.40gb")),
        ],
        ["memory", "nodes"],
        {"memory": ["2g.20gb"]},
    ),
    "a smaller share": Way(
        [
            node(gpus=1),
            running("r", on("n1", shares=["0:500/40"]), kind="inference"),
            pending("p", pods(share="600/10")),
        ],
        ["memory", "nodes"],
        {"memory": ["a share of 0.3 with 5 GiB"]},
    ),
    "less of the host": Way(
        [node(cpu=96.0), running("r", on("n1", 0), kind="inference"), pending("p", pods(cpu=128))],
        ["host-resources"],
        {"host-resources": ["64 CPUs"]},
    ),
    "a runtime that ends before the reserved start": Way(
        [
            node(),
            running("r", on("n1", *range(6)), runtime=6 * HOUR, **KEPT),
            pending("big", pods(gpus=8), age=3 * HOUR),
            pending("p", pods(gpus=2)),
        ],
        ["runtime", "nodes"],
        {"runtime": ["2026-01-01T02:00:00Z", "big"]},
    ),
    "a model that the fleet has not": Way(
        [node(), pending("p", pods(gpus=2), models=("B200-180",))],
        ["gpu-type", "nodes"],
        {"nodes": ["1 more node with 8 B200-180"]},
    ),
    "a pod larger than any node": Way(
        [node(), pending("p", pods(gpus=12))],
        ["gpus", "nodes"],
        {"gpus": ["6 instead of 12"], "nodes": ["1 more node with 12 H100-80"]},
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_ways_are_told_cheapest_first(way: Way) -> None:
    found = answer(snapshot(*way.facts), way.job)
    assert [o.kind for o in found.options] == list(way.kinds), [o.detail for o in found.options]
    assert found.unblock == found.options[0].detail
    for kind, words in way.says.items():
        detail = next(o.detail for o in found.options if o.kind == kind)
        assert all(word in detail for word in words), detail


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_holds_in_a_whole_pass(way: Way) -> None:
    fleet = snapshot(*way.facts)
    told = [o for o in answer(fleet, way.job).options if o.change is not None]
    assert told
    for option in told:
        plan = what_if(fleet, option.change, POLICY, NOW).plan
        assert way.job in {p.job for p in plan.placements}, option.detail


def test_where_nothing_works_the_plain_reason_stays() -> None:
    found = answer(snapshot(node(), queue("a", 8, limit=8), pending("p", pods(gpus=1), models=("V100-16",), queue="a"),
                            running("r", on("n1", *FULL), **KEPT)))  # fmt: skip
    assert (str(found.reason), found.expected_start) == ("no-such-model", None)
    assert found.unblock


def test_the_expected_start_is_an_instant() -> None:
    fleet = snapshot(node(), running("r", on("n1", *FULL), runtime=6 * HOUR, **KEPT), pending("p"))
    assert answer(fleet).expected_start == NOW + 2 * HOUR


def test_a_job_that_starts_now_is_waited_for_as_well() -> None:
    fleet = snapshot(
        node(), pending("first", pods(gpus=8), age=30 * MINUTE, runtime=2 * HOUR), pending("p", pods(gpus=4))
    )
    assert answer(fleet).expected_start == NOW + 2 * HOUR
    assert "stop" not in {o.kind for o in answer(fleet).options}, "nobody is told to stop what just starts"


def test_a_head_with_a_reservation_of_its_own_may_use_it() -> None:
    fleet = snapshot(
        node(), running("r", on("n1", *range(4)), runtime=5 * HOUR, **KEPT), pending("p", pods(gpus=8), age=5 * HOUR)
    )
    assert answer(fleet).expected_start == NOW + HOUR


def test_what_is_cut_is_told() -> None:
    """Any of these would free four GPUs of a node, enough for either pod set alone, never for both."""
    count = MOST_STARTS // 5 + 1
    small = [running(f"r{i}{g}", on(f"n{i}", g), saved=30, **KEPT) for i in range(count) for g in range(5)]
    fleet = snapshot(*nodes(count), *small, pending("p", pods(gpus=4), pods(gpus=4, cpu=1), required="node"))
    assert f"of {5 * count} running jobs the {MOST_STARTS}" in answer(fleet).cut


def test_a_large_fleet_is_answered_in_reasonable_time() -> None:
    """Not a timed test: it ends long before the suite's own limit, where trying everything would not."""
    count = 120
    busy = [
        running(
            f"r{i}{half}", on(f"n{i}", *range(half, half + 4)), saved=i + half, runtime=timedelta(hours=5 + i), **KEPT
        )
        for i in range(count)
        for half in (0, 4)
    ]
    fleet = snapshot(*nodes(count), *busy, pending("p", pods(16, gpus=8)))
    found = answer(fleet)
    assert found.expected_start == NOW + timedelta(hours=16)
