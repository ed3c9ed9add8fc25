"""Jobs of queues that belong to another scheduler: made for it, and followed in its own objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpufleet.clusters.handed import Admission, Handed, Stage
from gpufleet.clusters.kubernetes.api import Api, Json
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.launching import Launch
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.handoff import kai, kueue, volcano
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HandedOver, levels_of
from gpufleet.clusters.kubernetes.seeing.pods import PodFact
from gpufleet.clusters.kubernetes.seeing.reading import Raw, text
from gpufleet.errors import Refused
from gpufleet.model.hardware import Node


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Another scheduler: how a job is written for it, where its groups of pods lie, how one is read."""

    name: str
    groups: str
    """All its groups of pods, in every namespace."""
    objects: Callable[[HandedOver], tuple[Json, ...]]
    read: Callable[[Any], Admission]


SCHEDULERS: Final[Mapping[str, Scheduler]] = {
    found.name: found
    for found in (
        Scheduler(kueue.NAME, f"/apis/{kueue.API}/workloads", kueue.job_objects, kueue.admission),
        Scheduler(volcano.NAME, f"/apis/{volcano.API}/podgroups", volcano.job_objects, volcano.admission),
        Scheduler(kai.NAME, f"/apis/{kai.API}/podgroups", kai.job_objects, kai.admission),
    )
}


@dataclass(frozen=True, slots=True)
class GroupFact:
    """One group of pods, as its scheduler tells of it."""

    namespace: str
    name: str
    admission: Admission

    @property
    def path(self) -> str:
        root, folder = SCHEDULERS[self.admission.scheduler].groups.rsplit("/", 1)
        return f"{root}/namespaces/{self.namespace}/{folder}/{self.name}"


def group_fact(raw: Raw, scheduler: Scheduler) -> GroupFact:
    admission = replace(scheduler.read(raw), scheduler=scheduler.name)
    return GroupFact(text(raw, "metadata", "namespace"), text(raw, "metadata", "name"), admission)


def admissions(pods: Iterable[PodFact], groups: Iterable[GroupFact]) -> dict[tuple[str, int], Admission]:
    """What the schedulers say of each attempt that was handed to one, by (job, attempt)."""
    told = {(group.namespace, group.name): group.admission for group in groups}
    found: dict[tuple[str, int], Admission] = {}
    for pod in pods:
        if pod.scheduler:
            key, group = (
                (pod.seen.job, pod.seen.attempt),
                (pod.namespace, names.group_name(pod.seen.job, pod.seen.attempt)),
            )
            found[key] = told.get(group) or Admission(Stage.UNSEEN, scheduler=pod.scheduler)
    return found


def launch_for(
    scheduler: Scheduler,
    api: Api,
    handed: Handed,
    nodes: Iterable[Node],
    fleet: str,
    pods: PodConfig,
    seeing: SeeingConfig,
) -> Launch:
    """The job as that scheduler takes it. Raises Refused while no node is its, Permanent where none could hold a pod."""
    theirs = tuple(node for node in nodes if dict(node.labels).get(names.SCHEDULER) == scheduler.name)
    if not theirs:
        raise Refused(
            f"Queue {handed.job.queue} is handed to {scheduler.name}, and no node of {api.name} carries the label "
            f"{names.SCHEDULER}={scheduler.name}."
        )
    levels = levels_of(theirs, [(level.name, level.labels) for level in seeing.levels])
    over = HandedOver(handed.job, handed.attempt, handed.namespace, handed.container, theirs, levels, fleet, pods)
    objects = scheduler.objects(over)
    return Launch(
        api,
        handed.job.id,
        handed.job.team,
        handed.namespace,
        beside=tuple(one for one in objects if one["kind"] != "Pod"),
        pods=tuple(_marked(one, scheduler.name) for one in objects if one["kind"] == "Pod"),
    )


def _marked(pod: Json, scheduler: str) -> Json:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata["labels"], names.SCHEDULER: scheduler}}}
