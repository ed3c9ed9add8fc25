"""What a pod asks the kubelet for, so that it gets what the plan says: whole GPUs, MIG slices, replicas of shared ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import Object
from gpufleet.errors import Refused
from gpufleet.model.hardware import Node
from gpufleet.model.snapshot import PodPlace, ShareOn

GPU: Final = "nvidia.com/gpu"
SHARED_GPU: Final = "nvidia.com/gpu.shared"
MIG_PREFIX: Final = "nvidia.com/mig-"
STRATEGY: Final = "nvidia.com/mig.strategy"
SHARING: Final = "nvidia.com/gpu.sharing-strategy"
REPLICAS: Final = "nvidia.com/gpu.replicas"
PRODUCT: Final = "nvidia.com/gpu.product"
MPS: Final = "mps"
UNSHARED: Final = frozenset({"", "none"})
WHOLE_MILLI: Final = 1000


def mig_resource(profile: str) -> str:
    """`1g.10gb+me` is offered as `nvidia.com/mig-1g.10gb.me`: a plus is no part of a resource's name."""
    return MIG_PREFIX + profile.replace("+", ".")


def gpu_resources(place: PodPlace, node: Node) -> Mapping[str, int]:
    """Extended resources of the device plugin. Raises Refused where the node cannot give the place as planned."""
    labels = dict(node.labels)
    if place.slices:
        single = labels.get(STRATEGY) == "single"
        return Counter(GPU if single else mig_resource(held.instance.profile) for held in place.slices)
    if place.shares:
        return _shares(place.shares, node, labels)
    if place.gpus and labels.get(SHARING, "") not in UNSHARED:
        raise Refused(f"Node {node.name} shares its GPUs by {labels[SHARING]}: nobody can have a whole one there.")
    return {GPU: len(place.gpus)} if place.gpus else {}


def _shares(shares: tuple[ShareOn, ...], node: Node, labels: Mapping[str, str]) -> Mapping[str, int]:
    """With MPS a replica is a fixed part and a pod has one; with time slices replicas only count."""
    kind, replicas = labels.get(SHARING, ""), labels.get(REPLICAS, "")
    if kind in UNSHARED or not replicas.isdecimal() or int(replicas) < 1:
        raise Refused(f"Node {node.name} offers no shares: it needs the labels {SHARING} and {REPLICAS}.")
    parts = [-(-share.milli * int(replicas) // WHOLE_MILLI) for share in shares]
    if kind == MPS and max(parts) > 1:
        raise Refused(f"Node {node.name} cuts each GPU in {replicas} by MPS: no pod can have more than one part of it.")
    renamed = not labels.get(PRODUCT, "").endswith("-SHARED")
    return {SHARED_GPU if renamed else GPU: sum(parts)}


def share_environment(place: PodPlace, node: Node) -> Mapping[str, str]:
    """What holds a share inside its bounds: read by the MPS server; time slices have no such thing."""
    if not place.shares or dict(node.labels).get(SHARING) != MPS:
        return {}
    share = place.shares[0]
    return {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, share.milli // 10)),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={share.memory_mib}M",
    }


def container_resources(place: PodPlace, gpus: Mapping[str, int], more: Mapping[str, str]) -> Object:
    """Requests and limits. Memory is bounded by what was asked; cores are promised, and idle ones may be used."""
    devices = {**{name: str(count) for name, count in sorted(gpus.items())}, **more}
    memory = {} if place.memory_mib is None else {"memory": f"{place.memory_mib}Mi"}
    cores = {} if place.cpu is None else {"cpu": f"{round(place.cpu * 1000)}m"}
    if more and not cores and not memory:
        cores = {"cpu": "0"}  # the API refuses huge pages where neither cores nor memory are named
    return {"requests": {**cores, **memory, **devices}, "limits": {**memory, **devices}}
