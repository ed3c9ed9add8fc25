"""A job without places, as pods that any scheduler can place: what all three schedulers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.environment import port_of
from gpufleet.clusters.kubernetes.rendering.gang import SERVE_PORT, GangObjects, gang_objects
from gpufleet.clusters.kubernetes.rendering.names import Object
from gpufleet.clusters.kubernetes.rendering.resources import PRODUCT
from gpufleet.errors import Permanent
from gpufleet.model.hardware import Exactness, MigInstance, MigProfile, Node
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Container, Job, PodSet, Share, Slice, Whole

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the topology and the node label that names its domains."""

    name: str
    label: str


def levels_of(nodes: Iterable[Node], known: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Level, ...]:
    """Of the levels (name, labels that may tell it), those that all these nodes have, by one label they share."""
    keys = [set(dict(node.labels)) for node in nodes]
    shared = set.intersection(*keys) if keys else set()
    found = ((name, next((label for label in labels if label in shared), "")) for name, labels in known)
    return tuple(Level(name, label) for name, label in found if label)


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A job for another scheduler. `nodes` are that scheduler's own, `levels` go from broad to narrow."""

    job: Job
    attempt: int
    namespace: str
    container: Container
    nodes: tuple[Node, ...]
    levels: tuple[Level, ...] = ()
    fleet: str = ""
    config: PodConfig = field(default_factory=PodConfig)

    @property
    def name(self) -> str:
        """Of the group of its pods."""
        return names.group_name(self.job.id, self.attempt)

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.fleet, team=self.job.team, job=self.job.id, attempt=self.attempt)

    def label_of(self, level: str | None) -> str | None:
        """The node label of a level the job named; Permanent where these nodes do not have it."""
        if level is None:
            return None
        known = {found.name: found.label for found in self.levels} | {"node": HOSTNAME}
        if level not in known:
            raise Permanent(f"{self.job.id} asks for one {level}, but the nodes it is handed to have no such label.")
        return known[level]


def unplaced(handed: HandedOver) -> GangObjects:
    """The gang as our own pass would have it, without places: any node that has what is asked for will do.

    Raises Permanent where no node of that scheduler could ever hold a pod.
    """
    fitting = _fitting(handed)
    typical = replace(fitting[0], name="any", exactness=Exactness.COUNT)
    found = gang_objects(_gang(handed, typical), {typical.name: typical}, handed.config, handed.fleet)
    port = port_of(f"{handed.name}-serve")
    return replace(found, pods=tuple(_freed(pod, fitting, port) for pod in found.pods))


def _fitting(handed: HandedOver) -> list[Node]:
    job = handed.job
    most = max((s.demand.gpus for s in job.pod_sets if isinstance(s.demand, Whole)), default=0)
    found = [
        node
        for node in handed.nodes
        if (not job.models or node.model.name in job.models)
        and node.model.memory_mib >= job.needs.memory_mib
        and node.model.compute_capability >= job.needs.compute_capability
        and len(node.devices) >= most
    ]
    if not found:
        raise Permanent(f"{job.id} can never run on the nodes it is handed to: none has the GPUs that it asks for.")
    return found


def _gang(handed: HandedOver, node: Node) -> GangSpec:
    job, pods = handed.job, list[PodSpec]()
    for number, asked in enumerate(job.pod_sets):
        for _ in range(asked.count):
            place = _place(asked, number, len(pods), node, job.id)
            pods.append(PodSpec(f"{job.id}-{handed.attempt}-{len(pods)}", len(pods), place, handed.container))
    return GangSpec(job.id, handed.attempt, job.team, handed.namespace, tuple(pods), job.checkpoint.grace, job.kind)


def _place(asked: PodSet, number: int, rank: int, node: Node, job: str) -> PodPlace:
    demand = asked.demand
    place = PodPlace(number, rank, node.name, cpu=asked.cpu, memory_mib=asked.memory_mib)
    match demand:
        case Whole(gpus):
            return replace(place, gpus=tuple(range(gpus)))
        case Slice():
            profile = _profile(demand, node, job)
            return replace(place, slices=(SliceOn(0, MigInstance(profile.starts[0], profile.name)),))
        case Share(milli, memory_mib):
            return replace(place, shares=(ShareOn(0, milli, memory_mib),))


def _profile(asked: Slice, node: Node, job: str) -> MigProfile:
    """The one that was named, else the smallest that holds what is asked for."""
    known = sorted(node.model.profiles, key=lambda p: (p.size, p.compute, p.name))
    for profile in known:
        fits = profile.memory_mib >= asked.memory_mib and profile.compute >= asked.compute
        if profile.name == asked.profile or (asked.profile is None and fits):
            return profile
    raise Permanent(f"{job} asks for a slice that {node.model.name} does not have.")


def _freed(pod: Object, fitting: Iterable[Node], port: int) -> Object:
    """No pin, no gate of ours, no name of a node: where it runs is told by the kubelet.

    All pods have one port, for Kueue takes pods that differ in it for different pod sets, of which it allows few.
    """
    spec = {key: value for key, value in pod["spec"].items() if key not in ("affinity", "schedulingGates")}
    main, *beside = spec["containers"]
    told = {"name": "GPUFLEET_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    changed = {"GPUFLEET_NODE": told, "GPUFLEET_SERVE_PORT": {"name": "GPUFLEET_SERVE_PORT", "value": str(port)}}
    env = [changed.get(variable["name"], variable) for variable in main["env"]]
    ports = [{"name": SERVE_PORT, "containerPort": port}]
    affinity = _of_products({dict(node.labels).get(PRODUCT, "") for node in fitting})
    return {**pod, "spec": {**affinity, **spec, "containers": [{**main, "env": env, "ports": ports}, *beside]}}


def _of_products(products: set[str]) -> Object:
    """Only nodes whose GPUs are of these products; where a node does not say, its scheduler has to know."""
    if "" in products:
        return {}
    term = {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": sorted(products)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def with_metadata(pod: Object, *, labels: Mapping[str, str], annotations: Mapping[str, str], **spec: Any) -> Object:
    """The pod with more labels and annotations, and with fields of its spec."""
    known = pod["metadata"]
    metadata = {
        **known,
        "labels": {**known["labels"], **labels},
        "annotations": {**known.get("annotations", {}), **annotations},
    }
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], **spec}}
