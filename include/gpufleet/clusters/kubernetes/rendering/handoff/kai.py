"""KAI (scheduling.run.ai): pods with a PodGroup, the quota tree as Queues, shares by annotation, and PodGroups read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from gpufleet.clusters.handed import Admission, Stage
from gpufleet.clusters.kubernetes.rendering.handoff.admission import conditions, phase
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HOSTNAME, HandedOver, Level, unplaced, with_metadata
from gpufleet.clusters.kubernetes.rendering.handoff.shares import QueueShare, flavors, queue_shares
from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, dns_label, label_value
from gpufleet.clusters.kubernetes.rendering.priorities import priority_class
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import PodSet, Share, Whole

NAME: Final = "kai"
API: Final = "scheduling.run.ai/v2alpha2"
SCHEDULER_NAME: Final = "kai-scheduler"
_UNBOUNDED: Final = -1


def job_objects(handed: HandedOver) -> tuple[Object, ...]:
    """PodGroup, service, pods. Our own PodGroup is named in the pods, so that KAI makes none of its own."""
    job = handed.job
    found = unplaced(replace(handed, job=replace(job, pod_sets=tuple(map(_without_shares, job.pod_sets)))))
    group = {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": handed.name, "namespace": handed.namespace, "labels": handed.labels},
        "spec": {
            "minMember": min(job.least_pods, len(found.pods)),
            "queue": dns_label(job.queue),
            "priorityClassName": priority_class(job.kind),
            "preemptibility": "preemptible" if job.preemptible else "non-preemptible",
            **_topology(handed),
        },
    }
    labels = {"kai.scheduler/queue": dns_label(job.queue)}
    asked = [asked for asked in job.pod_sets for _ in range(asked.count)]
    pods = (
        with_metadata(
            pod,
            labels=labels,
            annotations={"pod-group-name": handed.name, **_fraction(wish)},
            schedulerName=SCHEDULER_NAME,
        )
        for pod, wish in zip(found.pods, asked, strict=True)
    )
    return (group, *([found.service] if found.service else []), *pods)


def _without_shares(asked: PodSet) -> PodSet:
    """A share is asked for by annotation, and by no resource."""
    return replace(asked, demand=Whole(0)) if isinstance(asked.demand, Share) else asked


def _fraction(asked: PodSet) -> dict[str, str]:
    """By memory where it is said: that is what KAI holds a pod to. One of the two only."""
    if not isinstance(asked.demand, Share):
        return {}
    if asked.demand.memory_mib:
        return {"gpu-memory": str(asked.demand.memory_mib)}
    return {"gpu-fraction": f"{asked.demand.milli / 1000:g}"}


def _topology(handed: HandedOver) -> Object:
    wish = handed.job.topology
    required, preferred = handed.label_of(wish.required), handed.label_of(wish.preferred)
    if not required and not preferred:
        return {}
    found: Object = {"topology": dns_label(handed.fleet)}
    found |= {"requiredTopologyLevel": required} if required else {}
    return {"topologyConstraint": found | ({"preferredTopologyLevel": preferred} if preferred else {})}


def quota_objects(
    fleet: str, queues: Iterable[Queue], nodes: Iterable[Node], levels: Iterable[Level]
) -> tuple[Object, ...]:
    """Topology and Queues, parents first. Cores and memory are not what is short, so they are left unbounded."""
    labels = {FLEET: label_value(fleet)}
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": dns_label(fleet), "labels": labels},
        "spec": {"levels": [{"nodeLabel": name} for name in (*(level.label for level in levels), HOSTNAME)]},
    }
    return (topology, *(_queue(share, labels) for share in queue_shares(queues, flavors(nodes))))


def _queue(share: QueueShare, labels: dict[str, str]) -> Object:
    """KAI counts GPUs without regard to their model, so the models are summed."""
    open_ended = {"quota": _UNBOUNDED, "overQuotaWeight": 1, "limit": _UNBOUNDED}
    gpu = {
        "quota": _number(sum(share.deserved.values(), Fraction(0))),
        "overQuotaWeight": _number(Fraction(share.weight).limit_denominator(1000)),
        "limit": _UNBOUNDED if share.most is None else _number(share.most),
    }
    parent = {"parentQueue": dns_label(share.parent)} if share.parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": dns_label(share.name), "labels": labels},
        "spec": {
            "displayName": share.name,
            **parent,
            "resources": {"gpu": gpu, "cpu": open_ended, "memory": open_ended},
        },
    }


def _number(amount: Fraction) -> int | float:
    """A whole number where it is one; else thousandths, rounded down."""
    return int(amount) if amount.denominator == 1 else int(amount * 1000) / 1000


_STAGES: Final = {
    "Pending": Stage.WAITING,
    "Running": Stage.ADMITTED,
    "Unknown": Stage.EVICTED,
    "Completed": Stage.FINISHED,
}


def admission(group: Any) -> Admission:
    """From a PodGroup (None: there is none). KAI tells why it waits for each pool of nodes; the newest word counts."""
    stage = _STAGES.get(phase(group), Stage.UNSEEN)
    said = [(reason, message) for _, holds, reason, message in conditions(group, "schedulingConditions") if holds]
    if said and stage in (Stage.UNSEEN, Stage.WAITING):
        return Admission(Stage.WAITING, *said[-1])
    return Admission(stage)
