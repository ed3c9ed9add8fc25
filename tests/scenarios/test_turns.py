"""Stories about whose turn it is: quotas, fair shares, the line, reservations, victims, moves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import HOUR, MINUTE, node, nodes, on, pending, pods, queue, running
from tests.scenarios.stories import Story, tell

from gpufleet.model.hardware import MigRemake
from gpufleet.model.policy import SchedulingPolicy

FULL = tuple(range(8))


def singles(count: int, queue: str = "a", start: int = 0, node: str = "n1", **more: object) -> list[object]:
    """Running one-GPU jobs on neighbouring GPUs."""
    return [running(f"{queue}{i}", on(node, start + i), queue=queue, **more) for i in range(count)]


def asks(count: int, queue: str, **more: object) -> list[object]:
    """Waiting one-GPU jobs."""
    return [pending(f"{queue}-{i}", queue=queue, **more) for i in range(count)]


QUOTA = {
    "a gang above the limit of its queue starts nothing": Story(
        [*nodes(3), queue("a", 4, limit=8), pending("p", pods(3, gpus=4))],
        starts=[],
        waits={"p": "over-limit"},
        says={"p": ["8", "12"]},
    ),
    "the smallest limit on the way to the root holds": Story(
        [node(), queue("dept", 0, limit=2), queue("team", 0, limit=3, parent="dept"), *asks(3, "team")],
        starts=["team-0", "team-1"],
        waits={"team-2": "over-limit"},
    ),
    "a limit on one model leaves the other alone": Story(
        [
            node("h", gpus=4),
            node("t", model="T4-16"),
            queue("a", None, limit={"H100-80": 0}),
            pending("heavy", models=("H100-80",)),
            pending("light", models=("T4-16",)),
        ],
        starts=["light"],
        waits={"heavy": "over-limit"},
        says={"heavy": ["H100-80"]},
    ),
    "work that may not be preempted stays inside what is deserved": Story(
        [
            node(),
            queue("a", 1),
            queue("b", 7),
            pending("fixed", pods(2, share="600/4"), preemptible=False),
            pending("loose", pods(2, share="600/4")),
        ],
        starts=["loose"],
        waits={"fixed": "over-quota-non-preemptible"},
    ),
    "slices cost by memory: two 3g fill a limit of one GPU": Story(
        [node(gpus=2), queue("a", 1, limit=1), *(pending(f"p{i}", pods(profile="3g.40gb")) for i in range(3))],
        starts=["p0", "p1"],
        waits={"p2": "over-limit"},
    ),
    "a limit cut below what runs kills nobody": Story(
        [node(), queue("a", 4, limit=6), running("r", on("n1", *range(7))), pending("p")],
        starts=[],
        stops=[],
        waits={"p": "over-limit"},
    ),
}

FAIR = {
    "weights three to one divide an idle fleet six to two": Story(
        [node(), queue("a", 0, weight=3), queue("b", 0), *asks(8, "a"), *asks(8, "b")],
        starts=[*(f"a-{i}" for i in range(6)), "b-0", "b-1"],
    ),
    "what an owner does not ask for is lent": Story(
        [node(), queue("a", 8), queue("b", 0), *asks(2, "a"), *asks(8, "b")],
        starts=["a-0", "a-1", *(f"b-{i}" for i in range(6))],
    ),
    "departments divide before their teams do": Story(
        [
            node(gpus=4),
            queue("d1", 0),
            queue("d2", 0),
            queue("x", 0, parent="d1"),
            queue("y", 0, parent="d1"),
            queue("z", 0, parent="d2"),
            *asks(4, "x"),
            *asks(4, "y"),
            *asks(4, "z"),
        ],
        starts=["x-0", "y-0", "z-0", "z-1"],
    ),
    "the queue with less of its due goes before the higher priority": Story(
        [
            node(),
            queue("a", 4),
            queue("b", 4),
            running("ra", on("n1", 0, 1, 2, 3), priority=90),
            running("rb", on("n1", 4, 5), queue="b"),
            pending("rich", pods(gpus=2), priority=90, age=HOUR / 2),
            pending("poor", pods(gpus=2), queue="b", priority=10),
        ],
        starts=["poor"],
        stops=[],
    ),
    "a late user gets half and the GPUs do not swing back": Story(
        [node(), queue("a", 2), queue("b", 2), *singles(8), *asks(4, "b")],
        starts=[f"b-{i}" for i in range(4)],
        stops_count=4,
    ),
    "two equal users with more waiting: nothing moves": Story(
        [node(), queue("a", 2), queue("b", 2), *singles(4), *singles(4, "b", 4), *asks(3, "a"), *asks(3, "b")],
        starts=[],
        stops=[],
        moves=[],
    ),
    "a large head that cannot start does not hold back the due of its queue": Story(
        [
            node(gpus=6),
            queue("a", 2),
            queue("b", 0),
            running("r", on("n1", 0, 1), queue="b", preemptible=False),
            pending("large", pods(gpus=6), priority=90),
            pending("small", pods(gpus=2)),
            *asks(4, "b"),
        ],
        starts=["small", "b-0", "b-1"],
    ),
}

CHAIN = [
    *nodes(1, gpus=8),
    queue("a", 2), queue("a-low", parent="a"),
    queue("c", 6), queue("c-due", 6, parent="c"), queue("c-low", parent="c"),
    *(running(f"a{i}", on("n0", i), queue="a-low", priority=10) for i in range(4)),
    *(running(f"c{i}", on("n0", 4 + i), queue="c-low", priority=1) for i in range(4)),
]  # fmt: skip
"""Team a borrows two beyond what it deserves; team c, with its own low work, is still within."""

TAKING_BACK = {
    "priority does not protect what was borrowed": Story(
        [
            *nodes(2),
            queue("a", 8),
            queue("b", 8),
            running("r0", on("n0", *FULL), priority=100),
            running("r1", on("n1", *FULL), priority=100),
            pending("p", pods(gpus=8), queue="b"),
        ],
        starts=["p"],
        stops_count=1,
    ),
    "what is inside a guarantee is not taken, whatever the priority": Story(
        [
            *nodes(2),
            queue("a", 8),
            queue("b", 8),
            running("r", on("n0", *FULL), priority=1),
            running("s", on("n1", 0), queue="b", priority=100),
            pending("p", pods(gpus=8), queue="b", priority=100),
        ],
        starts=[],
        stops=[],
    ),
    "a rigid gang leaves as a whole": Story(
        [
            *nodes(3, gpus=4),
            queue("a", 4),
            queue("b", 8),
            running("r", *(on(f"n{i}", 0, 1, 2, 3) for i in range(3))),
            pending("p", pods(2), queue="b"),
        ],
        starts=["p"],
        stops=["r"],
        shrinks={},
    ),
    "an elastic gang shrinks instead": Story(
        [
            node(),
            queue("a", 4),
            queue("b", 4),
            running("r", *(on("n1", i) for i in FULL), min_members=2),
            pending("p", pods(2), queue="b"),
        ],
        starts=["p"],
        stops=[],
        shrinks={"r": 2},
    ),
    "many small ones make room for a large one": Story(
        [node(), queue("a", 8), queue("b", 0), *singles(8, "b"), pending("p", pods(gpus=4))],
        starts=["p"],
        stops_count=4,
    ),
    "a queue promises every start its time": Story(
        [
            *nodes(2),
            queue("a", 16),
            queue("b", 0, min_runtime=HOUR / 2),
            running("old", on("n0", *FULL), queue="b", saved=50),
            running("new", on("n1", *FULL), queue="b", hours=0.2, saved=1),
            pending("p", pods(gpus=8)),
        ],
        starts=["p"],
        stops=["old"],
    ),
    "what another team borrowed goes before the own team's low work, which would only take it back": Story(
        [*CHAIN, pending("due", pods(gpus=1), queue="c-due")], starts=["due"], stops=["a0"]
    ),
    "who was refused before something was given back is asked again": Story(
        [
            node("n0", gpus=2),
            node("n1"),
            queue("top", limit=6),
            *(queue(name, parent="top") for name in ("x", "y", "z")),
            running("r0", on("n0", 0, 1), queue="y"),
            running("r1", on("n1", 0), on("n1", 4), on("n1", 6), queue="z", hours=1),
            pending("p1", pods(gpus=2), queue="z", priority=100),
            pending("p6", pods(gpus=2), queue="x", age=9 * HOUR),
        ],
        starts=["p1", "p6"],
    ),
    "training never stops a service": Story(
        [
            *nodes(2),
            queue("a", 8),
            queue("b", 8),
            running("serve", on("n0", *FULL), queue="b", kind="inference"),
            running("batch", on("n1", *FULL), queue="b", saved=40),
            pending("p", pods(gpus=8)),
        ],
        starts=["p"],
        stops=["batch"],
    ),
    "a cheap victim that does not suffice is not stopped beside the one that does": Story(
        [
            node(),
            queue("a", 8),
            queue("b", 0),
            running("little", on("n1", 0), queue="b", saved=20),
            running("enough", on("n1", 1, 2, 3, 4), queue="b", saved=27),
            running("fixed", on("n1", 5, 6, 7), queue="b", preemptible=False),
            pending("p", pods(gpus=4)),
        ],
        starts=["p"],
        stops=["enough"],
    ),
    "one job that loses little beats four that lose more together": Story(
        [
            node(),
            queue("a", 8),
            queue("b", 0),
            running("x", on("n1", 0, 1, 2, 3), queue="b", saved=7),
            *singles(4, "b", 4, saved=12),
            pending("p", pods(gpus=4)),
        ],
        starts=["p"],
        stops=["x"],
    ),
}

IN_ONE_QUEUE = {
    "a more important job takes the place": Story(
        [node(), running("low", on("n1", *FULL)), pending("vip", pods(gpus=8), priority=60)],
        starts=["vip"],
        stops=["low"],
    ),
    "equal priority never preempts": Story(
        [node(), running("first", on("n1", *FULL)), pending("twin", pods(gpus=8))], starts=[], stops=[]
    ),
    "nor does it beside a lower one": Story(
        [
            *nodes(2),
            running("low", on("n0", *FULL), priority=10),
            running("equal", on("n1", *FULL), priority=60, saved=1),
            pending("vip", pods(2, gpus=8), priority=60),
        ],
        starts=[],
        stops=[],
    ),
    "and the lower one goes first, though it loses more": Story(
        [
            *nodes(2),
            running("low", on("n0", *FULL), priority=10, saved=50),
            running("equal", on("n1", *FULL), priority=60, saved=20),
            pending("vip", pods(gpus=8), priority=60),
        ],
        starts=["vip"],
        stops=["low"],
    ),
    "the freshest save loses least": Story(
        [
            *nodes(2),
            running("stale", on("n0", *FULL), saved=50, priority=10),
            running("fresh", on("n1", *FULL), saved=2, priority=10),
            pending("vip", pods(gpus=8), priority=60),
        ],
        starts=["vip"],
        stops=["fresh"],
    ),
    "nobody is stopped in vain": Story(
        [
            *nodes(2),
            running("low", on("n0", *FULL), priority=10),
            running("high", on("n1", *FULL), priority=90),
            pending("vip", pods(2, gpus=8), priority=60),
        ],
        starts=[],
        stops=[],
    ),
    "a queue at its limit makes room for its own more important job": Story(
        [*nodes(2), queue("a", 8, limit=8), running("low", on("n0", *FULL)), pending("vip", pods(gpus=8), priority=60)],
        starts=["vip"],
        stops=["low"],
    ),
    "a service takes from training": Story(
        [
            *nodes(2),
            running("t0", on("n0", *FULL), saved=50),
            running("t1", on("n1", *FULL), saved=3),
            pending("serve", pods(gpus=8), kind="inference", priority=125, preemptible=False),
        ],
        starts=["serve"],
        stops=["t1"],
    ),
}

RUNS = [
    running("r1", on("n0", *FULL), preemptible=False, hours=7, runtime=8 * HOUR),
    running("r2", on("n1", 0, 1, 2, 3), preemptible=False, hours=6, runtime=8 * HOUR),
]
HEAD = pending("head", pods(2, gpus=8), age=3 * HOUR)

WAITING = {
    "an aged head keeps its place from work without an end": Story(
        [*nodes(2), *RUNS, HEAD, pending("long", pods(gpus=4))],
        starts=[],
        waits={"long": "behind"},
        says={"long": ["head"]},
    ),
    "work that ends before the reserved start runs": Story(
        [*nodes(2), *RUNS, HEAD, pending("short", pods(gpus=4), runtime=HOUR)], starts=["short"]
    ),
    "work that ends an hour late does not": Story(
        [*nodes(2), *RUNS, HEAD, pending("three", pods(gpus=4), runtime=3 * HOUR)], waits={"three": "behind"}
    ),
    "beside the reservation there is room": Story(
        [
            *nodes(3),
            RUNS[0],
            running("r3", on("n2", 0, 1, 2, 3), preemptible=False),
            HEAD,
            pending("long", pods(gpus=4)),
        ],
        starts=["long"],
        on={"long": ["n2"]},
    ),
    "a young head holds nothing back": Story(
        [*nodes(2), *RUNS, pending("head", pods(2, gpus=8), age=10 * MINUTE), pending("long", pods(gpus=4))],
        starts=["long"],
    ),
    "when it counts as old is policy": Story(
        [*nodes(2), *RUNS, pending("head", pods(2, gpus=8), age=10 * MINUTE), pending("long", pods(gpus=4))],
        waits={"long": "behind"},
        policy=SchedulingPolicy(ageing_bound=timedelta(minutes=5)),
    ),
    "a reservation is for one GPU type": Story(
        [
            *nodes(2),
            node("g", model="A100-80"),
            queue("a", 24),
            *RUNS,
            pending("head", pods(2, gpus=8), age=3 * HOUR, models=("H100-80",)),
            pending("other", pods(gpus=8), models=("A100-80",)),
        ],
        starts=["other"],
    ),
    "an aged job that can never run reserves nothing": Story(
        [node(), pending("absurd", pods(9, gpus=8), age=9 * HOUR, priority=90), pending("p")],
        starts=["p"],
        waits={"absurd": "too-large"},
    ),
}

MOVING = {
    "the slice in the way moves, not the two that could": Story(
        [node(gpus=1), *(running(f"s{s}", on("n1", slices=[f"0:1g.10gb@{s}"]), saved=1) for s in (0, 1, 5)),
         pending("p", pods(profile="3g.40gb"))],
        starts=["p"], moves=["s5"], stops=[],
    ),
    "single jobs move into the holes of other nodes": Story(
        [*nodes(3), running("u0", on("n0", *range(7)), saved=1), running("u2", on("n2", *range(7)), saved=1),
         *singles(6, node="n1", saved=1), pending("p", pods(gpus=4))],
        starts=["p"], on={"p": ["n1"]}, stops=[],
    ),
    "who has not saved for long does not move": Story(
        [*nodes(2), running("stale", on("n0", 0), saved=100), running("fixed", on("n1", *range(7)), preemptible=False),
         pending("p", pods(gpus=8))],
        starts=[], moves=[], waits={"p": "fragmented"},
    ),
    "every mover needs a place": Story(
        [*nodes(2), running("pair", on("n0", 0, 1), saved=1), running("fixed", on("n1", *range(7)), preemptible=False),
         pending("p", pods(gpus=8))],
        starts=[], moves=[],
    ),
    "a move comes before a kill": Story(
        [*nodes(2), running("low", on("n0", 0), saved=1, priority=10),
         running("mid", on("n1", *range(7)), preemptible=False, priority=90), pending("vip", pods(gpus=8), priority=60)],
        starts=["vip"], moves=["low"], stops=[],
    ),
    "nobody moves back to a node that is remade only when it is empty": Story(
        [node(gpus=2, mig=MigRemake.EMPTY_NODE), queue("a", 1),
         running("r", on("n1", slices=["0:1g.10gb@0"]), on("n1", shares=["1:100/2"]), saved=1),
         pending("p", pods(slice_gib=4), preemptible=False)],
        starts=[], moves=[],
    ),
    "shares move together": Story(
        [node(gpus=4), *(running(f"s{i}", on("n1", shares=[f"{i}:100/10"]), saved=1) for i in range(4)),
         pending("p", pods(gpus=2))],
        starts=["p"], stops=[],
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", QUOTA.values(), ids=QUOTA)
def test_quota(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", FAIR.values(), ids=FAIR)
def test_fairness(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", TAKING_BACK.values(), ids=TAKING_BACK)
def test_reclaim(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", IN_ONE_QUEUE.values(), ids=IN_ONE_QUEUE)
def test_preemption(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", WAITING.values(), ids=WAITING)
def test_reservation(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", MOVING.values(), ids=MOVING)
def test_consolidation(story: Story) -> None:
    tell(story)
