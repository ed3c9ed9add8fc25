"""Volcano (scheduling.volcano.sh/v1beta1): pods with a PodGroup, the quota tree as Queues, and PodGroups read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from gpufleet.clusters.handed import Admission, Stage
from gpufleet.clusters.kubernetes.rendering.handoff.admission import conditions, phase
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HandedOver, unplaced, with_metadata
from gpufleet.clusters.kubernetes.rendering.handoff.shares import (
    Flavor,
    QueueShare,
    count_of,
    flavors,
    queue_shares,
    sizes_of,
)
from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, dns_label, label_value
from gpufleet.clusters.kubernetes.rendering.priorities import priority_class
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job

NAME: Final = "volcano"
API: Final = "scheduling.volcano.sh/v1beta1"
_HARD, _SOFT = "hard", "soft"


def job_objects(handed: HandedOver) -> tuple[Object, ...]:
    """PodGroup, service, pods: all or none of the pods start."""
    found = unplaced(handed)
    group = {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": handed.name, "namespace": handed.namespace, "labels": handed.labels},
        "spec": {
            "minMember": min(handed.job.least_pods, len(found.pods)),
            "queue": dns_label(handed.job.queue),
            "priorityClassName": priority_class(handed.job.kind),
            "minResources": _least(found.pods[: handed.job.least_pods]),
            **_topology(handed),
        },
    }
    annotations = {
        "scheduling.k8s.io/group-name": handed.name,
        "scheduling.volcano.sh/queue-name": dns_label(handed.job.queue),
        "volcano.sh/preemptable": _flag(handed.job),
    }
    pods = (with_metadata(pod, labels={}, annotations=annotations, schedulerName=NAME) for pod in found.pods)
    return (group, *([found.service] if found.service else []), *pods)


def _flag(job: Job) -> str:
    return "true" if job.preemptible else "false"


def _least(pods: Iterable[Object]) -> Object:
    """GPU resources of so many pods; cores and memory do not decide whether a gang may begin."""
    found: Counter[str] = Counter()
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for name, count in container["resources"].get("requests", {}).items():
                if name.startswith("nvidia.com/"):
                    found[name] += int(count)
    return {name: str(count) for name, count in sorted(found.items())}


def _topology(handed: HandedOver) -> Object:
    """HyperNodes are counted from the narrowest level, which is tier 1."""
    wish = handed.job.topology
    for mode, level in ((_HARD, wish.required), (_SOFT, wish.preferred)):
        if level is not None and level != "node" and handed.label_of(level):
            names = [found.name for found in handed.levels]
            tier = len(names) - names.index(level)
            return {"networkTopology": {"mode": mode, "highestTierAllowed": tier}}
    return {}


def quota_objects(fleet: str, queues: Iterable[Queue], nodes: Iterable[Node]) -> tuple[Object, ...]:
    """Queues, parents first; for the plugin `capacity` with its hierarchy."""
    kinds = flavors(nodes)
    return tuple(_queue(share, kinds, {FLEET: label_value(fleet)}) for share in queue_shares(queues, kinds))


def _queue(share: QueueShare, kinds: tuple[Flavor, ...], labels: dict[str, str]) -> Object:
    return {
        "apiVersion": API,
        "kind": "Queue",
        "metadata": {"name": dns_label(share.name), "labels": labels},
        "spec": {
            "parent": dns_label(share.parent) if share.parent else "root",
            "weight": max(1, round(share.weight)),
            "reclaimable": True,
            "deserved": _counts(share, kinds, bounded=False),
            **({"capability": bound} if (bound := _counts(share, kinds, bounded=True)) else {}),
        },
    }


def _counts(share: QueueShare, kinds: tuple[Flavor, ...], *, bounded: bool) -> Object:
    """What is promised, or what bounds it; Volcano knows resources, not models, so flavors are summed."""
    found: Counter[str] = Counter()
    for kind in kinds:
        amount = share.limit[kind.model] if bounded else share.deserved[kind.model]
        if amount is None:
            return {}
        for resource, offered in kind.offers:
            found[resource] += count_of(amount, kind, offered, sizes_of(kinds))
    return {name: str(count) for name, count in sorted(found.items())}


_STAGES: Final = {
    "Pending": Stage.WAITING,
    "Inqueue": Stage.WAITING,
    "Running": Stage.ADMITTED,
    "Unknown": Stage.EVICTED,
    "Completed": Stage.FINISHED,
}
"""`Unknown` is Volcano's word for a group that ran and has lost some of its pods."""


def admission(group: Any) -> Admission:
    """From a PodGroup (None: there is none)."""
    stage = _STAGES.get(phase(group), Stage.UNSEEN)
    if stage is not Stage.WAITING:
        return Admission(stage)
    said = [
        (reason, message) for kind, holds, reason, message in conditions(group) if holds and kind == "Unschedulable"
    ]
    return Admission(stage, *(said[-1] if said else ("", "")))
