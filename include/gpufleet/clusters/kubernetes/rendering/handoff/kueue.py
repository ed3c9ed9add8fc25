"""Kueue (kueue.x-k8s.io/v1beta2): a group of plain pods, the quota tree as ClusterQueues in cohorts, and Workloads read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpufleet.clusters.handed import Admission, Stage
from gpufleet.clusters.kubernetes.rendering.fabrics import FABRICS
from gpufleet.clusters.kubernetes.rendering.handoff.admission import conditions
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HOSTNAME, HandedOver, Level, unplaced, with_metadata
from gpufleet.clusters.kubernetes.rendering.handoff.shares import (
    Flavor,
    QueueShare,
    count_of,
    flavors,
    queue_shares,
    sizes_of,
)
from gpufleet.clusters.kubernetes.rendering.names import FLEET, RANK, SCHEDULER, Object, dns_label, label_value
from gpufleet.clusters.kubernetes.rendering.priorities import VALUES, priority_class
from gpufleet.clusters.kubernetes.rendering.resources import PRODUCT
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Queue, Team

NAME: Final = "kueue"
_DOMAIN: Final = "kueue.x-k8s.io"
API: Final = f"{_DOMAIN}/v1beta2"
_MANY: Final = "1P"
"""Of what is not short on these nodes. Kueue admits nothing that asks for a resource its queue does not name."""


def job_objects(handed: HandedOver) -> tuple[Object, ...]:
    """Service and pods. Kueue makes a Workload once the last pod is there, and opens its own gates on admission.

    To give its quota back, the Workload of that name must be deleted with the pods.
    """
    found = unplaced(handed)
    labels = {
        f"{_DOMAIN}/queue-name": local_queue(handed.job.queue),
        f"{_DOMAIN}/pod-group-name": handed.name,
        f"{_DOMAIN}/priority-class": priority_class(handed.job.kind),
    }
    annotations = {
        f"{_DOMAIN}/pod-group-total-count": str(len(found.pods)),
        f"{_DOMAIN}/pod-group-pod-index-label": RANK,
        **_topology(handed),
    }
    pods = (with_metadata(pod, labels=labels, annotations=annotations) for pod in found.pods)
    return (*([found.service] if found.service else []), *pods)


def _topology(handed: HandedOver) -> Mapping[str, str]:
    wish = handed.job.topology
    for word, level in (("required", wish.required), ("preferred", wish.preferred)):
        if label := handed.label_of(level):
            return {f"{_DOMAIN}/podset-{word}-topology": label}
    return {}


def local_queue(queue: str) -> str:
    return dns_label(queue)


def workload_name(handed: HandedOver) -> str:
    """A Workload of a pod group has the group's name."""
    return handed.name


def quota_objects(
    fleet: str, queues: Iterable[Queue], teams: Iterable[Team], nodes: Iterable[Node], levels: Iterable[Level]
) -> tuple[Object, ...]:
    """Topology, flavors, cohorts, ClusterQueues, LocalQueues and priority classes, in the order they are applied."""
    nodes = tuple(nodes)
    kinds, plenty = flavors(nodes), _plenty(nodes)
    shares = queue_shares(queues, kinds)
    labels = {FLEET: label_value(fleet)}
    return (
        _object("Topology", dns_label(fleet), labels, {"levels": [{"nodeLabel": name} for name in _labels(levels)]}),
        *(_flavor(kind, fleet, labels) for kind in kinds),
        _object("Cohort", _root(fleet), labels, {}),
        *(_cohort(share, fleet, labels) for share in shares if not share.is_leaf),
        *(_cluster_queue(share, kinds, plenty, fleet, labels) for share in shares if share.is_leaf),
        *(_local_queue(team, labels) for team in teams),
        *(_priority(name, value, labels) for name, value in _priorities()),
    )


def _plenty(nodes: Iterable[Node]) -> list[str]:
    """Cores, memory, and what the nodes' fabrics are asked for."""
    fabrics = [FABRICS[node.fabric] for node in nodes if node.fabric in FABRICS]
    pages = {"hugepages-2Mi" for fabric in fabrics if fabric.hugepages_mib}
    return ["cpu", "memory", *sorted({fabric.resource for fabric in fabrics if fabric.resource} | pages)]


def _labels(levels: Iterable[Level]) -> list[str]:
    return [*(level.label for level in levels), HOSTNAME]


def _priorities() -> list[tuple[str, int]]:
    return [(priority_class(kind), value) for kind, value in VALUES.items()]


def _flavor(kind: Flavor, fleet: str, labels: Mapping[str, str]) -> Object:
    where = {SCHEDULER: NAME, **({PRODUCT: kind.product} if kind.product else {})}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    spec = {"nodeLabels": where, "tolerations": tolerations, "topologyName": dns_label(fleet)}
    return _object("ResourceFlavor", kind.name, labels, spec)


def _root(fleet: str) -> str:
    """The cohort above all queues: what one leaves idle, any other may borrow."""
    return dns_label(f"gpufleet-{fleet}")


def _parent(share: QueueShare, fleet: str) -> str:
    return dns_label(share.parent) if share.parent else _root(fleet)


def _cohort(share: QueueShare, fleet: str, labels: Mapping[str, str]) -> Object:
    return _object("Cohort", dns_label(share.name), labels, {"parentName": _parent(share, fleet), **_fair(share)})


def _cluster_queue(
    share: QueueShare, kinds: tuple[Flavor, ...], plenty: list[str], fleet: str, labels: Mapping[str, str]
) -> Object:
    """What it is promised is its nominal quota; up to its limit it may borrow what others leave idle."""
    resources = sorted({resource for kind in kinds for resource, _ in kind.offers})
    open_ended = [{"name": name, "nominalQuota": _MANY} for name in plenty]
    told = [{"name": k.name, "resources": [*_quota(share, k, kinds, resources), *open_ended]} for k in kinds]
    return _object(
        "ClusterQueue",
        dns_label(share.name),
        labels,
        {
            "cohortName": _parent(share, fleet),
            "namespaceSelector": {"matchLabels": dict(labels)},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [*resources, *plenty], "flavors": told}] if told else [],
            **_fair(share),
        },
    )


def _quota(share: QueueShare, kind: Flavor, kinds: tuple[Flavor, ...], resources: list[str]) -> list[Object]:
    offered, sizes = dict(kind.offers), sizes_of(kinds)
    limit = share.limit.get(kind.model)
    found = []
    for resource in resources:
        nominal = count_of(share.deserved[kind.model], kind, offered.get(resource, 0), sizes)
        most = None if limit is None else count_of(limit, kind, offered.get(resource, 0), sizes)
        bound = {} if most is None else {"borrowingLimit": str(max(0, most - nominal))}
        found.append({"name": resource, "nominalQuota": str(nominal), **bound})
    return found


def _fair(share: QueueShare) -> Object:
    return {"fairSharing": {"weight": f"{share.weight:g}"}}


def _local_queue(team: Team, labels: Mapping[str, str]) -> Object:
    found = _object("LocalQueue", local_queue(team.queue), labels, {"clusterQueue": dns_label(team.queue)})
    found["metadata"]["namespace"] = team.namespace
    return found


def _priority(name: str, value: int, labels: Mapping[str, str]) -> Object:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": metadata, "value": value}


def _object(kind: str, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, "spec": dict(spec)}


def admission(workload: Any, pending: Any = None) -> Admission:
    """From a Workload (None: there is none yet) and, where it is served, the visibility API's list of what waits."""
    held = {kind: (holds, reason, message) for kind, holds, reason, message in conditions(workload)}
    for kind, stage in (
        ("Finished", Stage.FINISHED),
        ("Evicted", Stage.EVICTED),
        ("Admitted", Stage.ADMITTED),
    ):
        holds, reason, message = held.get(kind, (False, "", ""))
        if holds:
            return Admission(stage, reason, message)
    _, reason, message = held.get("QuotaReserved", (False, "", ""))
    if not isinstance(workload, Mapping):
        return Admission(Stage.UNSEEN)
    return Admission(Stage.WAITING if held else Stage.UNSEEN, reason, message, _position(workload, pending))


def _key(metadata: Any) -> tuple[Any, Any] | None:
    return (metadata.get("namespace"), metadata.get("name")) if isinstance(metadata, Mapping) else None


def _position(workload: Mapping[str, Any], pending: Any) -> int | None:
    """The API counts from 0."""
    metadata = workload.get("metadata")
    items = pending.get("items") if isinstance(pending, Mapping) else None
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and _key(item.get("metadata")) == _key(metadata):
            position = item.get("positionInClusterQueue")
            return position + 1 if isinstance(position, int) else None
    return None
