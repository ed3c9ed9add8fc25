"""What a person asks for, the same words in form, REST, CLI and operator. Every refusal is one sentence that names the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.formats import request_readers as readers
from gpufleet.model.capacity import CapacityType
from gpufleet.model.workload import (
    CheckpointPolicy,
    Container,
    Demand,
    Job,
    Kind,
    Needs,
    PodSet,
    Share,
    Slice,
    TopologyWish,
    Whole,
    Workload,
)
from gpufleet.placement.memory import Need


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request in the caller's words; unset keys are None and take the documented default.

    One pod set of `pods` pods; each asks for `gpus` whole GPUs, or a slice that holds `memory_gib`, or a named MIG
    `profile`, or a `share` of a GPU (then `memory_gib` is the share's memory). Instead of `memory_gib` it may name a
    workload it is `like`; what that needs is known where measured runs are, and `with_need` puts it in.
    """

    team: str
    project: str
    command: tuple[str, ...]
    name: str = ""
    kind: Kind = Kind.TRAINING
    image: str = ""
    env: tuple[tuple[str, str], ...] = ()
    pods: int = 1
    demand: Demand = Whole(1)
    leader_gpus: int | None = None
    """Whole GPUs of the first pod, where it asks for others than the workers."""
    gpu_memory_mib: int = 0
    models: tuple[str, ...] = ()
    capacity: tuple[CapacityType, ...] = ()
    priority: int = 50
    preemptible: bool = True
    min_members: int | None = None
    topology: TopologyWish = TopologyWish()
    mix_models: bool = False
    runtime: timedelta | None = None
    deadline: datetime | None = None
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    fresh: bool = False
    workload: Workload | None = None
    like: Workload | None = None
    derived: str = ""

    def with_need(self, need: Need) -> JobRequest:
        """The same request with the memory that was learned for what it is like."""
        assert isinstance(self.demand, Slice | Share), "the reader takes `like` for slices and shares only"
        return replace(self, demand=replace(self.demand, memory_mib=need.memory_mib), derived=need.why)

    def to_job(self, *, id: str, queue: str, submitted_by: str, at: datetime) -> Job:
        """The job this asks for."""
        return Job(
            id=id,
            name=self.name or self.command[0].rsplit("/", 1)[-1],
            team=self.team,
            project=self.project,
            queue=queue,
            kind=self.kind,
            pod_sets=self._pod_sets(),
            submitted_at=at,
            submitted_by=submitted_by,
            priority=self.priority,
            preemptible=self.preemptible,
            min_members=self.min_members,
            models=self.models,
            needs=Needs(memory_mib=self.gpu_memory_mib),
            capacity=self.capacity,
            topology=self.topology,
            mix_models=self.mix_models,
            runtime=self.runtime,
            deadline=self.deadline,
            checkpoint=self.checkpoint,
            container=Container(self.command, self.image, self.env),
            workload=self.workload or self.like,
        )

    def _pod_sets(self) -> tuple[PodSet, ...]:
        if self.leader_gpus is None:
            return (PodSet(self.pods, self.demand, derived=self.derived),)
        return PodSet(1, Whole(self.leader_gpus)), PodSet(self.pods - 1, self.demand)


KEYS: Final = (
    "team",
    "project",
    "name",
    "kind",
    "image",
    "command",
    "env",
    "pods",
    "gpus",
    "leader_gpus",
    "memory_gib",
    "like",
    "profile",
    "share",
    "models",
    "gpu_memory_gib",
    "capacity",
    "priority",
    "preemptible",
    "min_members",
    "topology_required",
    "topology_preferred",
    "topology_spread",
    "mix_models",
    "runtime",
    "deadline",
    "checkpoint_interval",
    "checkpoint_keep",
    "grace",
    "fresh",
    "workload",
)


def parse_request(raw: Mapping[str, Any]) -> JobRequest:
    """Check and convert; raises Invalid with one sentence for the first key that is wrong."""
    unknown = sorted(set(raw) - set(KEYS))
    if unknown:
        raise Invalid(f"'{unknown[0]}' is not a key of a job request; known are {', '.join(KEYS)}.")
    given = {key: value for key, value in raw.items() if value not in (None, "", [], {})}
    values = {key: _READERS[key](key, value) for key, value in given.items() if key in _READERS}
    for key in ("team", "project", "command"):
        if key not in values:
            raise Invalid(f"'{key}' is missing; a job request needs a team, a project and a command.")
    request = JobRequest(
        demand=_demand(given),
        checkpoint=_checkpoint(given),
        topology=TopologyWish(*(values.pop(f"topology_{key}", None) for key in ("required", "preferred", "spread"))),
        gpu_memory_mib=values.pop("gpu_memory_gib", 0),
        **{k: v for k, v in values.items() if k in _FIELDS},
    )
    if request.min_members is not None and request.min_members > request.pods:
        raise Invalid(f"min_members {request.min_members} is more than the {request.pods} pods.")
    if request.deadline is not None and request.runtime is None:
        raise Invalid("a deadline needs a runtime: how long the work takes at most, such as 48h.")
    if request.leader_gpus is not None and (request.pods < 2 or not isinstance(request.demand, Whole)):
        raise Invalid(
            "leader_gpus is for a gang of whole GPUs: pods must be 2 or more, and gpus is what each worker asks."
        )
    return request


_FIELDS: Final = {f.name for f in fields(JobRequest)}


_READERS: Final[dict[str, Any]] = {
    "team": readers.text,
    "project": readers.text,
    "name": readers.text,
    "kind": readers.kind,
    "image": readers.text,
    "command": readers.command,
    "env": readers.env,
    "pods": readers.positive,
    "leader_gpus": readers.positive,
    "models": readers.models,
    "gpu_memory_gib": readers.memory,
    "capacity": readers.capacity,
    "priority": readers.priority,
    "preemptible": readers.flag,
    "min_members": readers.positive,
    "topology_required": readers.text,
    "topology_preferred": readers.text,
    "topology_spread": readers.text,
    "mix_models": readers.flag,
    "runtime": readers.length,
    "deadline": readers.instant,
    "fresh": readers.flag,
    "workload": readers.workload,
    "like": readers.workload,
}


def _demand(given: Mapping[str, Any]) -> Demand:
    """One way to ask: gpus, profile, share (with memory_gib or like), or one of memory_gib and like alone."""
    if clash := next((pair for pair in _CLASHES if all(key in given for key in pair)), None):
        raise Invalid(f"{clash[0]} and {clash[1]} exclude each other; {_CLASHES[clash]}.")
    if "share" in given:
        return _share(given)
    if "profile" in given:
        return Slice(profile=readers.text("profile", given["profile"]))
    if "memory_gib" in given or "like" in given:
        return Slice(memory_mib=_memory(given))
    return Whole(readers.positive("gpus", given.get("gpus", 1)))


_WAYS: Final = "a pod asks for GPUs, a slice or a share"
_CLASHES: Final = {
    ("gpus", "profile"): _WAYS,
    ("gpus", "share"): _WAYS,
    ("profile", "share"): _WAYS,
    ("gpus", "memory_gib"): "a whole GPU's least memory is gpu_memory_gib",
    ("gpus", "like"): "whole GPUs have all the memory there is; workload says what runs on them",
    ("profile", "like"): "the memory of a slice is named, asked for, or learned",
    ("memory_gib", "like"): "the memory of a slice is named, asked for, or learned",
}


def _memory(given: Mapping[str, Any]) -> int:
    """MiB; 0 for now where it is to be learned."""
    return readers.memory("memory_gib", given["memory_gib"]) if "memory_gib" in given else 0


def _share(given: Mapping[str, Any]) -> Share:
    try:
        milli = int(float(given["share"]) * 1000)
    except (TypeError, ValueError, OverflowError):
        raise Invalid(
            f"share must be a fraction of one GPU such as 0.5, not {readers.short(given['share'])}."
        ) from None
    if not 0 < milli <= 1000 or isinstance(given["share"], bool):
        raise Invalid(f"share must be above 0 and at most 1, not {readers.short(given['share'])}.")
    if "memory_gib" not in given and "like" not in given:
        raise Invalid("memory_gib is missing; a share of a GPU needs the memory it may use.")
    return Share(milli, _memory(given))


def _checkpoint(given: Mapping[str, Any]) -> CheckpointPolicy:
    default = CheckpointPolicy()
    interval = (
        readers.length("checkpoint_interval", given["checkpoint_interval"])
        if "checkpoint_interval" in given
        else default.interval
    )
    grace = readers.length("grace", given["grace"]) if "grace" in given else default.grace
    keep = readers.positive("checkpoint_keep", given["checkpoint_keep"]) if "checkpoint_keep" in given else default.keep
    return CheckpointPolicy(interval, grace, keep)
