"""Running and pending jobs of a scenario file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from fractions import Fraction

from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, Fields
from gpufleet.formats.scenario_memory import Points, like
from gpufleet.formats.scenario_nodes import gpu_index, read_model
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import capability, gpu_models
from gpufleet.model.hardware import MigInstance, Node
from gpufleet.model.snapshot import Pending, PodPlace, Running, ShareOn, SliceOn
from gpufleet.model.workload import Demand, Job, Kind, Needs, PodSet, Share, Slice, TopologyWish, Whole

COMMON = ("job", "queue", "priority", "preemptible", "kind", "min_members", "runtime", "pods")
RUNNING_KEYS = (*COMMON, "started", "last_checkpoint")
PENDING_KEYS = (*COMMON, "submitted", "models", "mix_models", "needs", "capacity", "topology")
POD_KEYS = ("count", "gpus", "slice", "profile", "share", "cpu", "memory_gib")
DEMANDS = ("gpus", "slice", "profile", "share")
MOST_PODS, MOST_IDLE_PODS = 10_000_000, 10_000
"""More pods in one job, or more that ask for no GPU and so fit anywhere, are a typing error."""


def _job(fields: Fields, pod_sets: tuple[PodSet, ...], since: datetime) -> Job:
    """What running and pending jobs have in common."""
    pods = sum(s.count for s in pod_sets)
    least = fields.get("min_members", lambda c: c.integer(1), None)
    if least is not None and least > pods:
        raise fields["min_members"].wrong(f"min_members is {least}, the job has {pods} pods.")
    return Job(
        id=fields["job"].text(),
        team=fields["queue"].text(),
        project="",
        queue=fields["queue"].text(),
        kind=fields.get("kind", lambda c: c.choice(Kind), Kind.TRAINING),
        pod_sets=pod_sets,
        submitted_at=since,
        priority=fields.get("priority", lambda c: c.integer(-1_000_000_000), 50),
        preemptible=fields.get("preemptible", Cell.boolean, True),
        min_members=least,
        runtime=fields.get("runtime", Cell.span, None),
    )


# ---------------------------------------------------------------- pending


def read_pending(cell: Cell, levels: tuple[str, ...], at: datetime, points: Points = ()) -> Pending:
    """One waiting job; `points` are the measured runs that its pods may refer to."""
    fields = cell.fields(PENDING_KEYS)
    job_name = fields["job"].text()
    kind = fields.get("kind", lambda c: c.choice(Kind), Kind.TRAINING)
    sets = tuple(_pod_set(c, job_name, kind, points) for c in fields["pods"].cells())
    if not sets:
        raise fields["pods"].wrong(f"{job_name} has no pods.")
    if (pods := sum(s.count for s in sets)) > MOST_PODS:
        raise fields["pods"].wrong(f"{job_name} has {pods} pods, more than {MOST_PODS}.")
    if (idle := sum(s.count for s in sets if s.demand == Whole(0))) > MOST_IDLE_PODS:
        raise fields["pods"].wrong(f"{job_name} has {idle} pods without a GPU, more than {MOST_IDLE_PODS}.")
    job = _job(fields, sets, fields.get("submitted", Cell.instant, at))
    return Pending(
        Job(
            job.id,
            job.team,
            job.project,
            job.queue,
            job.kind,
            job.pod_sets,
            job.submitted_at,
            job.priority,
            job.preemptible,
            job.min_members,
            runtime=job.runtime,
            models=fields.get("models", lambda c: tuple(read_model(m).name for m in c.cells()), ()),
            mix_models=fields.get("mix_models", Cell.boolean, False),
            needs=fields.get("needs", _needs, Needs()),
            capacity=fields.get("capacity", lambda c: tuple(sorted({v.choice(CapacityType) for v in c.cells()})), ()),
            topology=fields.get("topology", lambda c: _topology(c, levels), TopologyWish()),
        )
    )


def _needs(cell: Cell) -> Needs:
    fields = cell.fields(("memory_gib", "compute_capability"))
    return Needs(fields.get("memory_gib", Cell.mib, 0), fields.get("compute_capability", _capability, (0, 0)))


def _capability(cell: Cell) -> tuple[int, int]:
    try:
        return capability(cell.text())
    except Invalid as why:
        raise cell.wrong(str(why)) from None


def _topology(cell: Cell, levels: tuple[str, ...]) -> TopologyWish:
    fields = cell.fields(("required", "preferred", "spread"))

    def level(value: Cell) -> str:
        if value.text() not in (*levels, "node"):
            raise value.wrong(f"'{value.raw}' is not a level of this file; known are {', '.join((*levels, 'node'))}.")
        return value.text()

    found = TopologyWish(*(fields.get(key, level, None) for key in ("required", "preferred", "spread")))
    if found.spread and found.preferred:
        raise cell.wrong("spread and preferred contradict each other: pods go apart, or near each other.")
    if found.spread and found.spread == found.required:
        raise cell.wrong(f"pods that must share one {found.required} cannot be spread over several of them.")
    return found


def _pod_set(cell: Cell, job: str, kind: Kind, points: Points) -> PodSet:
    fields = cell.fields(POD_KEYS)
    asked = [key for key in DEMANDS if key in fields]
    if len(asked) != 1:
        what = " and ".join(asked) if asked else "nothing"
        raise cell.wrong(f"{job} must ask for one of {', '.join(DEMANDS)} in a pod set, not for {what}.")
    demand, derived = _demand(asked[0], fields[asked[0]], kind, points)
    return PodSet(
        fields.get("count", lambda c: c.integer(1), 1),
        demand,
        fields.get("cpu", lambda c: float(c.number()), None),
        fields.get("memory_gib", Cell.mib, None),
        derived,
    )


def _demand(key: str, cell: Cell, kind: Kind, points: Points) -> tuple[Demand, str]:
    """The demand, and how its memory was derived where it is that of a measured workload."""
    if key == "gpus":
        return Whole(cell.integer(0)), ""
    if key == "profile":
        return Slice(profile=_profile(cell)), ""
    if key == "slice":
        fields = cell.fields(("memory_gib", "like", "compute"))
        memory, derived = _memory(fields, kind, points)
        return Slice(memory, fields.get("compute", lambda c: c.integer(1), 1)), derived
    fields = cell.fields(("fraction", "memory_gib", "like"))
    milli = _milli(fields["fraction"])
    memory, derived = _memory(fields, kind, points)
    return Share(milli, memory), derived


def _memory(fields: Fields, kind: Kind, points: Points) -> tuple[int, str]:
    """MiB as asked, or as learned: one of the two."""
    if "like" not in fields:
        return fields.get("memory_gib", Cell.mib, 0), ""
    if "memory_gib" in fields:
        raise fields["like"].wrong("memory_gib and like exclude each other: the need is asked for, or learned.")
    found = like(fields["like"], kind, points)
    return found.memory_mib, found.why


def _profile(cell: Cell) -> str:
    name = cell.text()
    known = {profile.name for model in gpu_models().values() for profile in model.profiles}
    if name not in known:
        near = get_close_matches(name, sorted(known))
        hint = f"near it are {', '.join(near)}" if near else f"there are {', '.join(sorted(known))}"
        raise cell.wrong(f"no GPU of the catalogue has the MIG profile '{name}'; {hint}.")
    return name


def _milli(cell: Cell) -> int:
    found = cell.number() * 1000
    if not Fraction(0) < found <= 1000:
        raise cell.wrong(f"a fraction is above 0 and at most 1, not {cell.raw}.")
    if found.denominator != 1:
        raise cell.wrong(f"{cell.raw} is finer than a thousandth of a GPU.")
    return int(found)


# ---------------------------------------------------------------- running


class Free:
    """Which GPUs are left for pods that say only how many they hold: the lowest that nobody names."""

    def __init__(self, cells: list[Cell], nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._named: dict[str, set[int]] = {}
        for cell in cells:
            for pod in cell.fields(RUNNING_KEYS).cells("pods"):
                self._note(pod.fields(("node", "gpus", "slices", "shares")))

    def _note(self, pod: Fields) -> None:
        named = self._named.setdefault(pod["node"].text(), set())
        if "gpus" in pod and pod["gpus"].tag == "list":
            named.update(c.integer() for c in pod["gpus"].cells())
        for part in (*pod.cells("slices"), *pod.cells("shares")):
            named.add(part.fields(("gpu", "profile", "start", "fraction", "memory_gib"))["gpu"].integer())

    def take(self, node: str, count: int, cell: Cell) -> tuple[int, ...]:
        named = self._named.setdefault(node, set())
        free = [d.index for d in self._nodes[node].devices if d.index not in named][:count]
        if len(free) < count:
            raise cell.wrong(f"{node} has no {count} GPUs left for this pod.")
        named.update(free)
        return tuple(free)


def read_running(cells: list[Cell], nodes: Mapping[str, Node], at: datetime) -> tuple[Running, ...]:
    """All running jobs with their places."""
    free = Free(cells, nodes)
    return tuple(_running(cell, nodes, free, at) for cell in cells)


def _running(cell: Cell, nodes: Mapping[str, Node], free: Free, at: datetime) -> Running:
    fields = cell.fields(RUNNING_KEYS)
    name = fields["job"].text()
    places = tuple(_place(c, rank, name, nodes, free) for rank, c in enumerate(fields["pods"].cells()))
    if not places:
        raise fields["pods"].wrong(f"{name} runs nowhere: it has no pods.")
    started = fields.get("started", Cell.instant, at)
    return Running(
        _job(fields, tuple(_asked(p) for p in places), started),
        places,
        started,
        fields.get("last_checkpoint", Cell.instant, None),
    )


def _asked(place: PodPlace) -> PodSet:
    """The demand behind a place, so the job can be asked for again after an eviction."""
    if place.slices:
        return PodSet(1, Slice(profile=place.slices[0].instance.profile))
    if place.shares:
        return PodSet(1, Share(place.shares[0].milli, place.shares[0].memory_mib))
    return PodSet(1, Whole(len(place.gpus)))


def _place(cell: Cell, rank: int, job: str, nodes: Mapping[str, Node], free: Free) -> PodPlace:
    fields = cell.fields(("node", "gpus", "slices", "shares"))
    node = nodes.get(fields["node"].text())
    if node is None:
        raise fields["node"].wrong(f"{job} runs on '{fields['node'].raw}', which is no node of this file.")
    if sum(key in fields for key in ("gpus", "slices", "shares")) != 1:
        raise cell.wrong(f"{job} must hold one of gpus, slices, shares in a pod.")
    return PodPlace(
        rank,
        rank,
        node.name,
        _gpus(fields["gpus"], job, node, free) if "gpus" in fields else (),
        tuple(_slice(c, job, node) for c in fields.cells("slices")),
        tuple(_share(c, job, node) for c in fields.cells("shares")),
    )


def _gpus(cell: Cell, job: str, node: Node, free: Free) -> tuple[int, ...]:
    if cell.tag != "list":
        return free.take(node.name, cell.integer(), cell)
    found = [_gpu(c, job, node) for c in cell.cells()]
    if len(set(found)) < len(found):
        raise cell.wrong(f"{job} names a GPU of {node.name} twice.")
    return tuple(sorted(found))


def _gpu(cell: Cell, job: str, node: Node) -> int:
    return gpu_index(cell, f"{job} runs where {node.name}", len(node.devices))


def _slice(cell: Cell, job: str, node: Node) -> SliceOn:
    fields = cell.fields(("gpu", "profile", "start"))
    gpu, profile = _gpu(fields["gpu"], job, node), fields["profile"].text()
    if node.model.profile(profile) is None:
        raise fields["profile"].wrong(f"{node.name} is {node.model.name}, which has no MIG profile '{profile}'.")
    return SliceOn(gpu, MigInstance(fields["start"].integer(), profile))


def _share(cell: Cell, job: str, node: Node) -> ShareOn:
    fields = cell.fields(("gpu", "fraction", "memory_gib"))
    milli = _milli(fields["fraction"])
    memory = fields.get("memory_gib", Cell.mib, node.model.memory_mib * milli // 1000)
    return ShareOn(_gpu(fields["gpu"], job, node), milli, memory)
