"""Small fleets full of trouble, for the engine: every model, sliced and shared cards, gangs, deep queue trees.

Every choice goes through hypothesis, so a failure shrinks to a small story.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from tests.builders import HOUR, MINUTE, mib, node, on, pending, pods, queue, running, snapshot

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.hardware import Device, GpuModel, Link, MigInstance, MigRemake, Node, NodeState, illegal_layout
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, ShareOn, SliceOn, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Needs

T = TypeVar("T")
BUSY = ("empty", "empty", "whole", "whole", "whole", "cut", "shared")
CALM = ("empty", "empty", "empty", "whole", "cut", "shared")
CLUSTERS = ("main",) * 9 + ("other",)
PATHS = ("s1/l1", "s1/l1", "s1/l2", "s2/l1", "s2/l3", "")
LEAVES = ("a", "b", "c")
USUAL = ("H100-80", "A100-80", "A30-24", "H100NVL-94") * 3
THROUGHPUT = SchedulingPolicy(net_gain_horizon=4 * HOUR, leaf_slowdown=1.1, usage_weight=1.0)
DEFAULT = SchedulingPolicy()
POLICIES = (
    DEFAULT,
    DEFAULT,
    replace(DEFAULT, ageing_bound=2 * MINUTE),
    replace(DEFAULT, moves_per_pass=1),
    replace(DEFAULT, move_services=15 * MINUTE),
    THROUGHPUT,
)


class Dice:
    """Choices."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))  # type: ignore[no-any-return]

    def up_to(self, most: int, least: int = 0) -> int:
        return int(self.draw(st.integers(least, most)))

    def often(self, percent: int) -> bool:
        return self.up_to(99) >= 100 - percent


@dataclass
class Rough:
    """A node while it is filled: what exists unused on its cards, and what runs on it."""

    name: str
    model: GpuModel
    gpus: int
    path: str
    cluster: str
    idle: dict[int, list[MigInstance]] = field(default_factory=dict)
    places: list[PodPlace] = field(default_factory=list)


@st.composite
def fleets(draw: Any) -> Snapshot:
    """Nodes, queues, running and waiting jobs that go together."""
    dice = Dice(draw)
    models = [gpu_models()[dice.of(*USUAL, *sorted(gpu_models()))] for _ in range(dice.of(1, 1, 2))]
    rough = [_rough(dice, f"n{i}", models, dice.of(1, 2, 4, 4, 8)) for i in range(dice.of(1, 2, 3, 4, 5))]
    queues = _queues(dice)
    runs = _running(dice, rough, queues)
    nodes = [_node(dice, r) for r in rough]
    waiting = [_waiting(dice, f"p{i}", models, nodes) for i in range(dice.of(1, 2, 3, 4, 5, 6))]
    return snapshot(*nodes, *queues, *runs, *waiting)


@st.composite
def little(draw: Any, jobs: int) -> Snapshot:
    """At most three nodes and eight cards, work that stays where it is, and some jobs of one queue that owns it all."""
    dice = Dice(draw)
    model = gpu_models()[dice.of(*USUAL, *sorted(gpu_models()))]
    rough = [
        _rough(dice, f"n{i}", [model], size, CALM) for i, size in enumerate(dice.of((4,), (1, 2), (3, 2), (2, 2, 2)))
    ]
    runs = [replace(r, job=replace(r.job, preemptible=False), leaving=False) for r in _running(dice, rough, ())]
    nodes = [_node(dice, r) for r in rough]
    pods_ = dice.of((1,), (1, 2), (1, 2, 3)) if jobs == 1 else (1, 1, 2)
    asks = [_ask(dice, f"p{i}", model, pods_) for i in range(jobs)]
    return snapshot(*nodes, *(queue(name, 99) for name in LEAVES), *runs, *asks)


def _ask(dice: Dice, name: str, model: GpuModel, counts: Sequence[int]) -> Pending:
    """A gang of one kind of pods or two, so many of each."""
    kinds = dice.of(1, 2, 2) if len(counts) > 2 and counts[-1] == 3 else 1
    sets = [replace(_pod_set(dice, [model], 2), count=dice.of(*counts)) for _ in range(kinds)]
    return pending(name, *sets, required=dice.of(None, None, None, "spine", "leaf", "node"))


@st.composite
def crowded(draw: Any) -> Snapshot:
    """Nodes of eight in three leaves, small preemptible training all over them, and gangs of two nodes and more."""
    dice = Dice(draw)
    nodes = [node(f"n{i}", path=f"s1/l{i % 3}") for i in range(dice.of(4, 6, 8))]
    free = {n.name: list(range(8)) for n in nodes}
    runs = [r for i in range(dice.of(3, 5, 8, 12)) if (r := _small(dice, f"r{i}", free))]
    asks = [
        pending(
            f"p{i}",
            pods(dice.of(2, 3, 4), gpus=dice.of(8, 8, 6)),
            queue=dice.of("a", "a", "a", "b"),
            age=dice.of(1, 5, 12, 12) * HOUR,
            priority=dice.of(50, 50, 50, 90),
            required=dice.of(None, None, "leaf"),
        )
        for i in range(dice.of(0, 1, 2, 3))
    ]
    queues = [queue(name, dice.of(0, 8, 16), weight=float(dice.of(1, 3))) for name in ("a", "b")]
    return snapshot(*nodes, *queues, *runs, *asks)


def _small(dice: Dice, name: str, free: dict[str, list[int]]) -> Running | None:
    """A job of one to three equal pods on nodes with so much room, or None where there is none."""
    gpus, count = dice.of(1, 1, 2, 2, 4, 8), dice.of(1, 1, 1, 2, 3)
    where = [n for n, left in free.items() if len(left) >= gpus]
    if len(where) < count:
        return None
    chosen = dice.draw(st.permutations(where))[:count]
    places = [on(n, *(free[n].pop() for _ in range(gpus))) for n in chosen]
    return running(
        name,
        *places,
        queue=dice.of("a", "a", "a", "b"),
        hours=dice.of(1, 3, 3, 4, 9),
        saved=dice.of(2, 20, 20, 40),
        preemptible=dice.often(95),
        runtime=dice.of(None, 20 * HOUR, timedelta(days=3)),
    )


@st.composite
def policies(draw: Any) -> SchedulingPolicy:
    return Dice(draw).of(*POLICIES)


# ---------------------------------------------------------------- nodes and what runs on them


def _rough(dice: Dice, name: str, models: Sequence[GpuModel], gpus: int, what: Sequence[str] = BUSY) -> Rough:
    node = Rough(name, dice.of(*models), gpus, dice.of(*PATHS), dice.of(*CLUSTERS))
    gpu = 0
    while gpu < node.gpus:
        match dice.of(*what):
            case "whole":
                count = dice.up_to(min(4, node.gpus - gpu), 1)
                node.places.append(on(name, *range(gpu, gpu + count)))
                gpu += count - 1
            case "cut" if node.model.profiles:
                _cut(dice, node, gpu)
            case "shared":
                _share(dice, node, gpu)
        gpu += 1
    if dice.often(20):
        node.places = [replace(p, cpu=float(dice.of(1, 4)), memory_mib=mib(dice.of(8, 16))) for p in node.places]
    return node


def _cut(dice: Dice, node: Rough, gpu: int) -> None:
    """Some instances that may stand together, each in use or idle."""
    there: list[MigInstance] = []
    for _ in range(dice.up_to(4, 1)):
        profile = dice.of(*node.model.profiles)
        new = MigInstance(dice.of(*profile.starts), profile.name)
        if illegal_layout(node.model, [*there, new]) is None:
            there.append(new)
            if dice.often(60):
                node.places.append(replace(on(node.name), slices=(SliceOn(gpu, new),)))
            else:
                node.idle.setdefault(gpu, []).append(new)


def _share(dice: Dice, node: Rough, gpu: int) -> None:
    left, memory = 1000, node.model.memory_mib
    for _ in range(dice.up_to(3, 1)):
        milli, need = dice.of(100, 250, 333, 500), mib(dice.of(2, 6))
        if milli <= left and need <= memory:
            left, memory = left - milli, memory - need
            node.places.append(replace(on(node.name), shares=(ShareOn(gpu, milli, need),)))


def _node(dice: Dice, rough: Rough) -> Node:
    remake = dice.of(*MigRemake) if rough.model.profiles else MigRemake.NEVER
    sick = {dice.up_to(rough.gpus - 1)} if dice.often(10) else set()
    cards = tuple(Device(i, tuple(sorted(rough.idle.get(i, ()))), i not in sick) for i in range(rough.gpus))
    has_host = dice.often(25)
    return Node(
        rough.name,
        rough.model,
        cards,
        tuple(rough.path.split("/")) if rough.path else (),
        capacity=dice.of(*[CapacityType.OWNED] * 4, *CapacityType),
        state=dice.of(*[NodeState.READY] * 20, NodeState.CORDONED, NodeState.RECLAIMING, NodeState.LOST),
        link=dice.of(rough.model.link, *Link),
        mig=remake,
        sharing=dice.often(85),
        cpu=sum(p.cpu or 0 for p in rough.places) + dice.of(4, 16) if has_host else None,
        memory_mib=sum(p.memory_mib or 0 for p in rough.places) + mib(dice.of(32, 64)) if has_host else None,
        cluster=rough.cluster,
    )


def _running(dice: Dice, rough: Sequence[Rough], queues: Sequence[Queue]) -> list[Running]:
    """Places grouped to jobs; pods of one job share model and cluster."""
    groups: list[tuple[tuple[str, str], list[PodPlace]]] = []
    for kind, place in (((r.model.name, r.cluster), p) for r in rough for p in r.places):
        alike = [places for other, places in groups if other == kind and len(places) < 6]
        if alike and dice.often(25):
            dice.of(*alike).append(place)
        else:
            groups.append((kind, [place]))
    domains = {r.name: r.path for r in rough}
    return [_run(dice, f"r{i}", places, domains) for i, (_, places) in enumerate(groups)]


def _run(dice: Dice, name: str, places: Sequence[PodPlace], domains: dict[str, str]) -> Running:
    together = {domains[p.node] for p in places}
    near = len(together) == 1 and together != {""}
    return running(
        name,
        *places,
        queue=dice.of(*LEAVES),
        hours=dice.of(0.2, 3, 9),
        saved=dice.of(None, 1, 2, 5, 10, 40, 200),
        priority=dice.of(10, 50, 50),
        preemptible=dice.often(85),
        kind=dice.of(*["training"] * 6, "interactive", "inference"),
        min_members=dice.of(None, None, dice.up_to(len(places), 1)),
        runtime=dice.of(None, 10 * HOUR, timedelta(days=3)),
        required="leaf" if near and dice.often(30) else None,
        leaving=dice.often(8),
    )


# ---------------------------------------------------------------- queues


def _queues(dice: Dice) -> list[Queue]:
    """Three leaves, flat or up to three levels deep; deserved and limits under `*`, by model, or both."""
    shape: dict[str, str | None] = dice.of(
        {"a": None, "b": None, "c": None},
        {"d": None, "a": "d", "b": "d", "c": None},
        {"d": None, "e": "d", "a": "e", "b": "e", "c": "d"},
    )
    return [_queue(dice, name, parent, leaf=name in LEAVES) for name, parent in shape.items()]


def _queue(dice: Dice, name: str, parent: str | None, *, leaf: bool) -> Queue:
    due = {"*": dice.of(0, 1, 2, 4, 8, 16)} if leaf or dice.often(30) else {}
    if due and dice.often(25):
        due[dice.of("H100-80", "A30-24")] = dice.up_to(due["*"])
    most = {key: amount + dice.of(0, 2, 6) for key, amount in due.items()} if dice.often(20) else None
    return queue(
        name,
        due,
        limit=most,
        parent=parent,
        weight=float(dice.of(1, 1, 1, 3, 0)),
        min_runtime=dice.of(*[timedelta(0)] * 4, HOUR),
        used_lately=dice.of(0.0, 0.0, 0.25, 0.75),
    )


# ---------------------------------------------------------------- waiting jobs


def _waiting(dice: Dice, name: str, models: Sequence[GpuModel], nodes: Sequence[Node]) -> Pending:
    largest = max(len(n.devices) for n in nodes)
    sets = [_pod_set(dice, models, largest) for _ in range(dice.of(1, 1, 2))]
    most = sum(s.count for s in sets)
    return pending(
        name,
        *sets,
        not_on=(dice.of(*nodes).name,) if dice.often(8) else (),
        queue=dice.of(*LEAVES),
        age=dice.of(5 * MINUTE, 30 * MINUTE, 5 * HOUR),
        priority=dice.of(10, 50, 50, 90),
        preemptible=dice.often(80),
        kind=dice.of(*["training"] * 4, "interactive", "inference"),
        min_members=dice.of(None, None, dice.up_to(most, 1)),
        required=dice.of(*[None] * 6, "spine", "leaf", "node"),
        preferred=dice.of(*[None] * 4, "leaf", "node"),
        runtime=dice.of(None, HOUR, 10 * HOUR),
        models=(dice.of(*models).name,) if dice.often(20) else (),
        needs=Needs(mib(dice.of(0, 30)), dice.of((0, 0), (8, 0))) if dice.often(8) else Needs(),
        capacity=tuple(sorted({dice.of(*CapacityType), CapacityType.OWNED})) if dice.often(10) else (),
    )


def _pod_set(dice: Dice, models: Sequence[GpuModel], most: int) -> Any:
    asks: list[dict[str, Any]] = [
        *[{"gpus": 1}, {"gpus": 2}, {"gpus": 4}] * 2, {"gpus": 8}, {"share": "500/10"}, {"share": "250/2"}, {"share": "334/4"},
    ]  # fmt: skip
    asks = [ask for ask in asks if ask.get("gpus", 0) <= most or dice.often(5)]
    profiles = [p for model in models for p in model.profiles]
    if profiles:
        asks += [{"slice_gib": 4}, {"slice_gib": 15, "compute": 2}, {"profile": dice.of(*profiles).name}]
    host = {"cpu": float(dice.of(1, 8)), "memory_gib": dice.of(4, 40)} if dice.often(10) else {}
    return pods(dice.of(1, 1, 2, 2, 3, 4), **host, **dice.of(*asks))
