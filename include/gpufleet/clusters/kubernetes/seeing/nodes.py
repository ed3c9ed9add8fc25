"""One raw node, kept as the few facts that planning needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gpufleet.clusters.base import OURS, SCHEDULER
from gpufleet.clusters.kubernetes.labels import FABRIC, FABRIC_DEVICES, LAYOUT, MACHINES, SeeingConfig
from gpufleet.clusters.kubernetes.rendering.resources import GPU, MIG_PREFIX, SHARED_GPU
from gpufleet.clusters.kubernetes.seeing.notices import notices_of
from gpufleet.clusters.kubernetes.seeing.products import profile_of
from gpufleet.clusters.kubernetes.seeing.reading import (
    MIB,
    Raw,
    at,
    count,
    instant,
    listed,
    mapping,
    quantity,
    text,
    whole,
)
from gpufleet.model.capacity import CapacityType, InterruptionNotice
from gpufleet.model.hardware import MOST_GPUS, NodeState

GPU_COUNT: Final = "nvidia.com/gpu.count"
REPLICAS: Final = "nvidia.com/gpu.replicas"
MIG_CAPABLE: Final = "nvidia.com/mig.capable"
MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
MIG_STATE: Final = "nvidia.com/mig.config.state"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
KEPT: Final = (
    MIG_STRATEGY,
    MIG_CAPABLE,
    "nvidia.com/mig.config",
    MIG_STATE,
    "nvidia.com/gpu.sharing-strategy",
    REPLICAS,
    "nvidia.com/gpu.product",
    INSTANCE_TYPE,
    SCHEDULER,
    FABRIC_DEVICES,
)
"""Labels that rendering, the MIG machine and hand-off ask for."""
CLOUDS: Final[Mapping[str, str]] = {"aws": "aws", "gce": "gcp", "azure": "azure", "sandbox": "sandbox"}
LOST_TAINT: Final = "node.kubernetes.io/unreachable"
KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Counts:
    """What a node has, or may give: whole GPUs (replicas of them where they are shared), slices by profile."""

    gpus: int = 0
    slices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node as its object tells it. `why` says what its state is for."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(repr=False)
    has: Counts
    gives: Counts
    cpu: float
    memory_mib: int
    state: NodeState
    why: str = ""
    provider: str = "owned"
    instance: str | None = None
    layout: str = ""
    fabric: str = ""
    capacity: CapacityType = CapacityType.OWNED
    created: datetime | None = None
    notices: tuple[InterruptionNotice, ...] = ()


def node_fact(raw: Raw, config: SeeingConfig) -> NodeFact:
    """Never raises; what the object does not say is left empty."""
    labels = {k: v for k, v in mapping(raw, "metadata", "labels").items() if isinstance(k, str) and isinstance(v, str)}
    gives = mapping(raw, "status", "allocatable")
    state, why = _state(raw, labels, config)
    provider, _, rest = text(raw, "spec", "providerID").partition("://")
    cloud = CLOUDS.get(provider, "owned")
    instance = rest.rsplit("/", 1)[-1] if cloud != "owned" and rest else None
    return NodeFact(
        name=text(raw, "metadata", "name"),
        uid=text(raw, "metadata", "uid"),
        labels=_kept(labels, config),
        has=_counts(mapping(raw, "status", "capacity")),
        gives=_counts(gives),
        cpu=float(quantity(gives.get("cpu"))),
        memory_mib=int(quantity(gives.get("memory")) / MIB),
        state=state,
        why=why,
        provider=cloud,
        instance=instance,
        layout=text(raw, "metadata", "annotations", LAYOUT),
        fabric=_fabric(labels, gives, config),
        capacity=_capacity(labels, cloud, config),
        created=instant(raw, "metadata", "creationTimestamp"),
        notices=notices_of(raw, instance),
    )


def _kept(labels: Mapping[str, str], config: SeeingConfig) -> Mapping[str, str]:
    wanted = {*KEPT, *config.models, GPU_COUNT, "nvidia.com/gpu.memory", "topology.kubernetes.io/region"}
    wanted |= {label for level in config.levels for label in level.labels}
    return {key: value for key, value in labels.items() if key in wanted}


def _counts(resources: Raw) -> Counts:
    slices: dict[str, int] = {}
    for name in resources:
        if isinstance(name, str) and name.startswith(MIG_PREFIX) and "gb" in name and (found := count(resources, name)):
            slices[profile_of(name.removeprefix(MIG_PREFIX))] = min(found, 7 * MOST_GPUS)
    return Counts(count(resources, GPU) + count(resources, SHARED_GPU), tuple(sorted(slices.items())))


# ------------------------------------------------------------------ state


def _state(raw: Raw, labels: Mapping[str, str], config: SeeingConfig) -> tuple[NodeState, str]:
    """The worst that is true of the node, and the sentence for it."""
    taints = [(text(t, "key"), text(t, "effect")) for t in listed(raw, "spec", "taints")]
    keys = {key for key, _ in taints}
    ready = _ready(raw)
    if ready == "Unknown" or LOST_TAINT in keys:
        return NodeState.LOST, "its kubelet is not heard any more"
    if at(raw, "metadata", "deletionTimestamp"):
        return NodeState.RECLAIMING, "its object is being deleted"
    if leaving := keys & set(config.leaving):
        return NodeState.RECLAIMING, f"it carries the taint {min(leaving)}"
    return _kept_free(raw, labels, ready, [k for k, effect in taints if effect in KEEPS_AWAY], config)


def _kept_free(
    raw: Raw, labels: Mapping[str, str], ready: str, keys: list[str], config: SeeingConfig
) -> tuple[NodeState, str]:
    """Whether new work may go there."""
    strange = sorted(set(keys) - set(config.tolerated))
    scheduler = labels.get(SCHEDULER, OURS)
    reasons = (
        (at(raw, "spec", "unschedulable") is True, "it is cordoned"),
        (bool(strange), f"it carries the taint {', '.join(strange)}"),
        (ready != "True", "it is not Ready"),
        (labels.get(MIG_STATE) in ("pending", "rebooting", "failed"), f"its MIG change is {labels.get(MIG_STATE)}"),
        (scheduler != OURS, f"it belongs to the scheduler {scheduler}"),
    )
    for is_so, why in reasons:
        if is_so:
            return NodeState.CORDONED, why
    return NodeState.READY, ""


def _ready(raw: Raw) -> str:
    for condition in listed(raw, "status", "conditions"):
        if text(condition, "type") == "Ready":
            return text(condition, "status")
    return ""


# ------------------------------------------------------------------ what kind of machine


def _capacity(labels: Mapping[str, str], cloud: str, config: SeeingConfig) -> CapacityType:
    for label, value, found in config.capacities:
        if label in labels and value in ("", labels[label]):
            return found
    return CapacityType.OWNED if cloud == "owned" else CapacityType.ON_DEMAND


def _fabric(labels: Mapping[str, str], gives: Raw, config: SeeingConfig) -> str:
    if FABRIC in labels:
        return labels[FABRIC]
    for resource, fabric in config.fabrics:
        if count(gives, resource):
            return fabric
    machine = labels.get(INSTANCE_TYPE, "")
    return next((fabric for start, fabric in MACHINES if machine.startswith(start)), "")


def physical_gpus(fact: NodeFact) -> int:
    """GPUs in the machine, as far as they are told; slices and replicas of them are not counted here."""
    told = whole(fact.labels, GPU_COUNT) or 0
    shown = max(fact.has.gpus, fact.gives.gpus) // replicas(fact)
    return min(MOST_GPUS, max(told, shown))


def replicas(fact: NodeFact) -> int:
    """How often the device plugin offers each GPU; 1 = not shared."""
    return max(1, whole(fact.labels, REPLICAS) or 1)
