"""Facts with defaults for tests: a test says only what matters to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, MigInstance, Node
from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, ShareOn, SliceOn, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Demand, Job, Kind, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.scheduling import run_pass
from gpufleet.units import GpuAmount, mib

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def instance(text: str) -> MigInstance:
    """`1g.10gb@6`."""
    profile, start = text.split("@")
    return MigInstance(int(start), profile)


def node(
    name: str = "n1",
    *,
    gpus: int = 8,
    model: str = "H100-80",
    path: str = "s1/l1",
    layout: Mapping[int, Sequence[str]] | None = None,
    unhealthy: Iterable[int] = (),
    **more: Any,
) -> Node:
    """A ready, owned node; `more` are fields of Node."""
    exists, sick = layout or {}, set(unhealthy)
    devices = tuple(Device(i, tuple(map(instance, exists.get(i, ()))), i not in sick) for i in range(gpus))
    found = gpu_model(model)
    position = tuple(path.split("/")) if path else ()
    return Node(name, found, devices, position, link=more.pop("link", found.link), **more)


def nodes(count: int, **more: Any) -> list[Node]:
    """n0, n1, ... alike."""
    return [node(f"n{i}", **more) for i in range(count)]


def queue(name: str = "a", deserved: Any = None, limit: Any = None, **more: Any) -> Queue:
    """A queue; amounts are GPUs under `*`, or a mapping by model."""
    return Queue(name, deserved=_amounts(deserved), limit=_amounts(limit), **more)


def _amounts(value: Any) -> tuple[tuple[str, GpuAmount], ...]:
    if value is None:
        return ()
    table = value if isinstance(value, Mapping) else {"*": value}
    return tuple(sorted((key, GpuAmount.of(amount)) for key, amount in table.items()))


def demand(
    gpus: int | None = None, slice_gib: float = 0, compute: int = 1, profile: str = "", share: str = ""
) -> Demand:
    """Whole GPUs (1 by default), a slice by need or by profile, or a share like `500/20` (thousandths / GiB)."""
    if share:
        milli, _, memory = share.partition("/")
        return Share(int(milli), mib(memory or 0))
    if profile or slice_gib:
        return Slice(mib(slice_gib), compute, profile or None)
    return Whole(1 if gpus is None else gpus)


def pods(count: int = 1, *, cpu: float | None = None, memory_gib: float | None = None, **asked: Any) -> PodSet:
    """A pod set; `asked` is what `demand` takes."""
    return PodSet(count, demand(**asked), cpu, None if memory_gib is None else mib(memory_gib))


def job(name: str = "j", *sets: PodSet, queue: str = "a", age: timedelta = 5 * MINUTE, **more: Any) -> Job:
    """A training job of one whole GPU, submitted five minutes ago; `required`, `preferred`, `spread` name levels."""
    wish = TopologyWish(more.pop("required", None), more.pop("preferred", None), more.pop("spread", None))
    kind = Kind(more.pop("kind", "training"))
    capacity = tuple(map(CapacityType, more.pop("capacity", ())))
    return Job(name, queue, "", queue, kind, sets or (pods(),), NOW - age, topology=wish, capacity=capacity, **more)


def pending(name: str = "j", *sets: PodSet, not_on: Sequence[str] = (), **more: Any) -> Pending:
    """A waiting job."""
    return Pending(job(name, *sets, **more), tuple(not_on))


def on(where: str, *gpus: int, slices: Iterable[str] = (), shares: Iterable[str] = ()) -> PodPlace:
    """A pod's place: whole GPUs, or slices `gpu:1g.10gb@6`, or shares `gpu:500/20`."""
    return PodPlace(0, 0, where, gpus, tuple(map(_slice, slices)), tuple(map(_share, shares)))


def _slice(text: str) -> SliceOn:
    gpu, _, what = text.partition(":")
    return SliceOn(int(gpu), instance(what))


def _share(text: str) -> ShareOn:
    gpu, _, what = text.partition(":")
    milli, _, memory = what.partition("/")
    return ShareOn(int(gpu), int(milli), mib(memory or 0))


def running(
    name: str, *places: PodPlace, queue: str = "a", hours: float = 4, saved: float | None = 10, **more: Any
) -> Running:
    """A job that runs since `hours` and saved `saved` minutes ago (None: never)."""
    ranked = tuple(replace(p, pod_set=i, rank=i) for i, p in enumerate(places))
    asked = tuple(PodSet(1, _held(p)) for p in ranked)
    leaving = more.pop("leaving", False)
    work = job(name, *asked, queue=queue, age=timedelta(hours=hours), **more)
    last = None if saved is None else NOW - timedelta(minutes=saved)
    return Running(work, ranked, NOW - timedelta(hours=hours), last, leaving)


def _held(place: PodPlace) -> Demand:
    if place.slices:
        return Slice(profile=place.slices[0].instance.profile)
    if place.shares:
        return Share(place.shares[0].milli, place.shares[0].memory_mib)
    return Whole(len(place.gpus))


def snapshot(*facts: Node | Queue | Running | Pending, levels: Sequence[str] = ("spine", "leaf")) -> Snapshot:
    """A fleet of these facts. Without a queue there is one, `a`, that deserves everything."""

    def all_of(kind: type) -> tuple[Any, ...]:
        return tuple(f for f in facts if isinstance(f, kind))

    queues = all_of(Queue) or (queue("a", sum(len(n.devices) for n in all_of(Node))),)
    return Snapshot(NOW, tuple(levels), all_of(Node), queues, all_of(Running), all_of(Pending))


def plan_of(*facts: Node | Queue | Running | Pending, policy: SchedulingPolicy | None = None) -> Plan:
    """The plan for a fleet of these facts."""
    return run_pass(snapshot(*facts), policy or SchedulingPolicy(), NOW)


def where(plan: Plan, name: str) -> list[tuple[str, tuple[int, ...]]]:
    """(node, GPUs) of every pod of a started job, by rank; empty when it does not start."""
    return [(p.node, p.devices) for x in plan.placements if x.job == name for p in x.pods]


def reasons(plan: Plan) -> dict[str, str]:
    """Reason of every job that waits."""
    return {w.job: str(w.reason) for w in plan.waiting}


def stopped(plan: Plan) -> set[str]:
    """Jobs that lose all their pods in one eviction."""
    return {e.job for e in plan.evictions if e.ranks is None}
