"""Stories about more work done in all: net gain, leaf moves, the bound on moves. Both rules are off unless asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from tests.builders import HOUR, MINUTE, node, nodes, on, pending, plan_of, pods, queue, running
from tests.scenarios.stories import Story, tell

from gpufleet.model.policy import SchedulingPolicy

FULL = tuple(range(8))
OFF = SchedulingPolicy()
GAIN = SchedulingPolicy(net_gain_horizon=4 * HOUR)
GANG = pending("gang", pods(4, gpus=8), age=9 * HOUR)
"""32 GPUs; it has waited longer than anything here has run."""


def small(where: str, queue: str = "a", hours: float = 4, saved: float | None = 30, **more: object) -> object:
    """A job of two GPUs, alone on its node."""
    return running(f"s-{where}", on(where, 0, 1), queue=queue, hours=hours, saved=saved, **more)


def four(**more: object) -> list[object]:
    """Four nodes of one leaf: two idle, two with a small job each."""
    return [*nodes(4), small("n0", **more), small("n1", **more)]


def asks(name: str) -> list[object]:
    """Four waiting one-GPU jobs of a queue."""
    return [pending(f"{name}-{i}", queue=name) for i in range(4)]


THREE_LEAVES = [
    *(node(f"{leaf}{i}", path=f"s1/{leaf}") for leaf in "abc" for i in range(2)),
    small("a1", saved=40),
    small("b1", saved=50),
    running("stays", on("c1", 0), preemptible=False),
    GANG,
]
"""An idle node in each of three leaves; the gang needs four nodes."""

NET_GAIN = {
    "unless it is asked for, nobody is stopped for throughput": Story([*four(), GANG], stops=[], starts=[], policy=OFF),
    "a big gang takes the place of two small jobs that came after it": Story(
        [*four(), GANG], starts=["gang"], stops=["s-n0", "s-n1"], policy=GAIN
    ),
    "who asked before the gang stays": Story(
        [*four(), replace(GANG, job=replace(GANG.job, submitted_at=GANG.job.submitted_at + 6 * HOUR))],
        starts=[],
        stops=[],
        policy=GAIN,
    ),
    "seniority can be given up": Story(
        [*four(), pending("gang", pods(4, gpus=8))],
        starts=["gang"],
        stops=["s-n0", "s-n1"],
        policy=replace(GAIN, net_gain_seniority=False),
    ),
    "a higher priority stays": Story([*four(priority=60), GANG], starts=[], stops=[], policy=GAIN),
    "a service stays": Story([*four(kind="inference"), GANG], starts=[], stops=[], policy=GAIN),
    "what may not be preempted stays": Story([*four(preemptible=False), GANG], starts=[], stops=[], policy=GAIN),
    "who has started a moment ago stays": Story([*four(hours=1.9), GANG], starts=[], stops=[], policy=GAIN),
    "who has never saved stays": Story([*four(saved=None), GANG], starts=[], stops=[], policy=GAIN),
    "a queue promises every start its time, net gain or not": Story(
        [queue("a", 32, min_runtime=5 * HOUR), *four(), GANG], starts=[], stops=[], policy=GAIN
    ),
    "a gang of eight is not big": Story(
        [*nodes(1), small("n0"), pending("eight", pods(2, gpus=4), age=9 * HOUR)], starts=[], stops=[], policy=GAIN
    ),
    "without idle GPUs there is nothing to gain": Story(
        [*nodes(2), *(running(f"r{i}", on(f"n{i}", *range(7)), saved=5) for i in (0, 1)),
         pending("gang", pods(2, gpus=8), age=9 * HOUR)],
        starts=[], stops=[], policy=GAIN,
    ),
    "a gain smaller than the loss is none": Story(
        [*nodes(3), *(running(f"r{i}", on(f"n{i}", *range(6)), saved=55) for i in (0, 1)), small("n2"),
         pending("gang", pods(3, gpus=8), age=9 * HOUR)],
        starts=[], stops=[], policy=replace(GAIN, net_gain_horizon=HOUR),
    ),
    "the node that costs least is cleared": Story(
        [*nodes(4), small("n0", saved=50), small("n1", saved=20), small("n2", saved=40),
         pending("gang", pods(2, gpus=8), age=9 * HOUR)],
        starts=["gang"], stops=["s-n1"], policy=GAIN,
    ),
    "one leaf before two, though it costs more": Story(
        [*(node(f"a{i}", path="s1/l1") for i in range(2)), *(node(f"b{i}", path="s1/l2") for i in range(2)),
         small("a0", saved=50), small("a1", saved=2), small("b0", saved=30), small("b1", saved=30),
         running("idle-maker", on("a1", 2), saved=2, priority=90), pending("gang", pods(2, gpus=8), age=9 * HOUR)],
        starts=["gang"], stops=["s-b0", "s-b1"], policy=GAIN,
    ),
    "borrowed work of another queue gives way inside the fair share": Story(
        [queue("a", 16, weight=3), queue("b", 0), *four(queue="b"), pending("gang", pods(3, gpus=8), age=9 * HOUR)],
        starts=["gang"], stops_count=1, policy=GAIN,
    ),
    "beyond its fair share a queue gains nothing from others": Story(
        [queue("a", 16), queue("b", 0), *four(queue="b"), GANG], starts=[], stops=[], policy=GAIN
    ),
    "what another queue deserves does not": Story(
        [queue("a", 16), queue("b", 16), *four(queue="b"), GANG], starts=[], stops=[], policy=GAIN
    ),
    "the limit of the gang's queue holds": Story(
        [queue("a", 8, limit=16), *four(), GANG], starts=[], stops=[], waits={"gang": "over-limit"}, policy=GAIN
    ),
    "a gang that may not be preempted stays inside what its queue deserves": Story(
        [queue("a", 16), *four(), replace(GANG, job=replace(GANG.job, preemptible=False))],
        starts=[], stops=[], policy=GAIN,
    ),
    "a victim on the way that is not needed stays": Story(
        [*nodes(3), running("low", on("n0", 0, 1, 2, 3, 4), saved=2), running("side", on("n1", 0, 1, 2), saved=1),
         running("more", on("n2", 0, 1, 2), saved=9), pending("gang", pods(3, gpus=5), age=9 * HOUR)],
        starts=["gang"], stops=["low"], policy=GAIN,
    ),
    "two leaves that cost more before three that slow the gang down": Story(
        THREE_LEAVES, starts=["gang"], stops=["s-a1", "s-b1"], policy=replace(GAIN, leaf_slowdown=1.1)
    ),
    "where leaves cost nothing the cheapest nodes are taken": Story(
        THREE_LEAVES, starts=["gang"], stops=["s-a1"], policy=GAIN
    ),
}  # fmt: skip

TOGETHER = SchedulingPolicy(leaf_slowdown=1.1)
LEAVES = [node(f"{leaf}{i}", path=f"s1/{leaf}") for leaf in "abc" for i in range(2)]


def crossing(**more: object) -> object:
    """A gang of two nodes on two leaves, with two days still to run."""
    facts = {"hours": 2, "saved": 5, "runtime": timedelta(days=2), **more}
    return running("gang", on("a0", *FULL), on("b0", *FULL), **facts)


def fixed(where: str, *gpus: int) -> object:
    """Work that stays where it is."""
    return running(f"f-{where}", on(where, *(gpus or FULL)), preemptible=False)


LEAF_MOVES = {
    "unless it is asked for, a running gang stays where it is": Story([*LEAVES, crossing()], moves=[], policy=OFF),
    "a gang across two leaves goes together": Story([*LEAVES, crossing()], moves=["gang"], policy=TOGETHER),
    "without a declared runtime nothing moves": Story([*LEAVES, crossing(runtime=None)], moves=[], policy=TOGETHER),
    "what ends soon is not worth a move": Story(
        [*LEAVES, crossing(runtime=timedelta(hours=3))], moves=[], policy=TOGETHER
    ),
    "who has not saved for long stays": Story([*LEAVES, crossing(saved=20)], moves=[], policy=TOGETHER),
    "a move saves first, so work not saved yet makes it no dearer": Story(
        [*LEAVES, crossing(saved=50)], moves=["gang"], policy=replace(TOGETHER, fresh_checkpoint=HOUR)
    ),
    "who has just started stays": Story([*LEAVES, crossing(hours=0.4)], moves=[], policy=TOGETHER),
    "what may not be preempted stays": Story([*LEAVES, crossing(preemptible=False)], moves=[], policy=TOGETHER),
    "no leaf has room and nobody can make it": Story(
        [*LEAVES, crossing(), *(fixed(n, 0) for n in ("a1", "b1", "c0", "c1"))], moves=[], policy=TOGETHER
    ),
    "a small job in the way moves too": Story(
        [*LEAVES, crossing(), running("small", on("a1", 0), saved=1), *(fixed(n) for n in ("b1", "c0")), fixed("c1", 0)],
        moves=["gang", "small"], policy=TOGETHER,
    ),
    "where nothing is free the gang and the job in its way change places": Story(
        [*LEAVES, crossing(), running("small", on("a1", *FULL), saved=1), *(fixed(n) for n in ("b1", "c0", "c1"))],
        moves=["gang", "small"], policy=TOGETHER,
    ),
    "the node from which least has to go is cleared": Story(
        [*[node(f"{leaf}{i}", path=f"s1/{leaf}") for leaf in "ab" for i in range(3)], crossing(),
         running("a-many", on("a1", *range(6)), saved=1), running("few", on("a2", 0, 1), saved=1),
         fixed("b1"), fixed("b2")],
        moves=["few", "gang"], policy=TOGETHER,
    ),
    "a small job that has not saved stays, and so does the gang": Story(
        [*LEAVES, crossing(), running("small", on("a1", 0), saved=90), *(fixed(n) for n in ("b1", "c0")), fixed("c1", 0)],
        moves=[], policy=TOGETHER,
    ),
    "a job as big as the gang is not moved for it": Story(
        [*LEAVES, crossing(), running("twin", on("a1", *FULL), on("c0", *FULL), saved=1), fixed("b1")],
        moves=[], policy=TOGETHER,
    ),
    "waiting work goes first, with the places it needs": Story(
        [*LEAVES, crossing(), pending("p", pods(2, gpus=8), required="leaf")],
        starts=["p"], on={"p": ["c0", "c1"]}, policy=TOGETHER,
    ),
    "no more pods are moved than a pass may": Story(
        [*LEAVES, crossing()], moves=[], policy=replace(TOGETHER, moves_per_pass=0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", NET_GAIN.values(), ids=NET_GAIN)
def test_net_gain(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", LEAF_MOVES.values(), ids=LEAF_MOVES)
def test_leaf_moves(story: Story) -> None:
    tell(story)


def test_a_leaf_move_names_the_gang_it_serves_and_ends_in_one_leaf() -> None:
    plan = plan_of(*LEAVES, crossing(), policy=TOGETHER)
    (move,) = plan.moves
    assert (move.job, move.for_job, move.lost_gpu_hours) == ("gang", "gang", Fraction(16 * 5, 60))
    assert len({p.node[0] for p in move.places} | {p.node[0] for p in _stay(move.places)}) == 1


def _stay(moved: object) -> list[object]:
    """Pods of the crossing gang that did not move."""
    ranks = {p.rank for p in moved}  # type: ignore[attr-defined]
    return [p for p in crossing().places if p.rank not in ranks]  # type: ignore[attr-defined]


def test_only_two_gangs_are_tried_in_a_pass() -> None:
    gangs = [pending(f"g{i}", pods(2, gpus=8), age=9 * HOUR) for i in range(3)]
    facts = [*nodes(8), *(small(f"n{i}") for i in range(7)), *gangs]
    plan = plan_of(*facts, policy=GAIN)
    assert len(plan.placements) == 2 and len(plan.evictions) == 3


SCATTERED = [*nodes(3), *(running(f"one-{i}", on("n0", i), saved=1) for i in (0, 1)),
             *(running(f"fixed-{i}", on(f"n{i}", *range(7)), preemptible=False) for i in (1, 2))]  # fmt: skip
"""Two small jobs in the way on n0, and a hole for each on the other nodes."""

BOUND = {
    "two pods move where a pass may move two": Story(
        [*SCATTERED, pending("p", pods(gpus=8))],
        starts=["p"], moves=["one-0", "one-1"], policy=SchedulingPolicy(moves_per_pass=2),
    ),
    "with one move to make, a job that needs two waits": Story(
        [*SCATTERED, pending("p", pods(gpus=8))], starts=[], moves=[], policy=SchedulingPolicy(moves_per_pass=1)
    ),
    "two jobs that need a move each share the bound": Story(
        [*nodes(4), *(running(f"one-{i}", on(f"n{i}", 0), saved=1) for i in (0, 1)),
         *(running(f"fixed-{i}", on(f"n{i}", *range(7)), preemptible=False) for i in (2, 3)),
         *(pending(f"p{i}", pods(gpus=8)) for i in (0, 1))],
        starts=["p0"], moves=["one-0"], policy=SchedulingPolicy(moves_per_pass=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", BOUND.values(), ids=BOUND)
def test_bound_on_moves(story: Story) -> None:
    tell(story)


PAST = {
    "who used the fleet lately gets less of what is left over": Story(
        [node(gpus=4), queue("a", 0, used_lately=0.75), queue("b", 0), *asks("a"), *asks("b")],
        starts=["b-0", "b-1", "b-2", "b-3"],
        policy=SchedulingPolicy(usage_weight=2.0),
    ),
    "unless the platform asks for it the past is forgotten": Story(
        [node(gpus=4), queue("a", 0, used_lately=0.75), queue("b", 0), *asks("a"), *asks("b")],
        starts=["a-0", "a-1", "b-0", "b-1"],
    ),
}


@pytest.mark.parametrize("story", PAST.values(), ids=PAST)
def test_time_decayed_usage(story: Story) -> None:
    tell(story)


RATIO = SchedulingPolicy(response_ratio=True, reserve=False)
SHORT = pending("short", pods(gpus=8), age=10 * MINUTE, runtime=HOUR / 2)
LONG = pending("long", pods(gpus=8), age=HOUR / 2, runtime=10 * HOUR)

ORDER = {
    "by age the older goes first": Story([node(), SHORT, LONG], starts=["long"]),
    "by response ratio the short one that has waited a third of its time does": Story(
        [node(), SHORT, LONG], starts=["short"], policy=RATIO
    ),
    "priority still comes first": Story(
        [node(), SHORT, pending("dear", pods(gpus=8), priority=90, runtime=10 * HOUR)], starts=["dear"], policy=RATIO
    ),
    "who has aged goes before every ratio": Story(
        [node(), SHORT, pending("old", pods(gpus=8), age=2 * HOUR, runtime=90 * HOUR)], starts=["old"], policy=RATIO
    ),
    "without a declared runtime there is no ratio to rise": Story(
        [node(), SHORT, pending("silent", pods(gpus=8), age=HOUR / 2)], starts=["short"], policy=RATIO
    ),
    "with reservations off an aged head keeps nothing idle": Story(
        [*nodes(2), running("r", on("n0", *FULL), preemptible=False), pending("head", pods(2, gpus=8), age=3 * HOUR),
         pending("later", pods(gpus=4))],
        starts=["later"], policy=SchedulingPolicy(reserve=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", ORDER.values(), ids=ORDER)
def test_order_and_reservations(story: Story) -> None:
    tell(story)
