"""Nodes as a cluster with the NVIDIA GPU Operator shows them: labels of GPU feature discovery, allocatable of its plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from gpufleet.model.catalogue import gpu_model
from tools.kubernetes.flags import KWOK_NODE

Raw = dict[str, Any]

PRODUCTS: Final[Mapping[str, tuple[str, int]]] = {
    "A100-40": ("NVIDIA-A100-SXM4-40GB", 40960),
    "A100-80": ("NVIDIA-A100-SXM4-80GB", 81920),
    "H100-80": ("NVIDIA-H100-80GB-HBM3", 81559),
    "H200-141": ("NVIDIA-H200", 143771),
    "B200-180": ("NVIDIA-B200", 183359),
    "L4-24": ("NVIDIA-L4", 23034),
    "L40S-48": ("NVIDIA-L40S", 46068),
    "T4-16": ("Tesla-T4", 15360),
}
"""Our name of a model -> what GPU feature discovery calls it, and the MiB that it reports."""
_FAMILIES: Final = {7: "turing", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}
_CONNECTIONS: Final = 16


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node to make. `labels` are added to those of the GPU Operator; topology labels belong there."""

    name: str
    model: str = "H100-80"
    gpus: int = 8
    """Whole GPUs that the device plugin offers."""
    slices: Mapping[str, int] = field(default_factory=dict)
    """MIG profile -> how many of it the plugin offers (strategy mixed)."""
    sliced: int = 1
    """How many GPUs are cut into these slices, where there are any; feature discovery counts them too."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpu: int = 96
    memory_gib: int = 1024
    resources: Mapping[str, str] = field(default_factory=dict)
    """Other resources the node offers, e.g. `vpc.amazonaws.com/efa`."""
    provider_id: str = ""
    """`PROVIDER://PATH/INSTANCE`, as a cloud's controller writes it."""

    def raw(self) -> Raw:
        """As the API takes it, status included."""
        allocatable = self.allocatable()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self._labels(), "annotations": dict(self.annotations)},
            "spec": {"taints": [dict(taint) for taint in self.taints], "providerID": self.provider_id},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }

    def allocatable(self) -> dict[str, str]:
        whole = {"nvidia.com/gpu": str(self.gpus)} if self.gpus or self.slices else {}
        slices = {f"nvidia.com/mig-{profile}": str(count) for profile, count in self.slices.items()}
        host = {"cpu": str(self.cpu), "memory": f"{self.memory_gib}Gi", "pods": "250", "ephemeral-storage": "1Ti"}
        return {**host, **whole, **slices, **self.resources}

    def _labels(self) -> dict[str, str]:
        host = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return {**host, **(self._gpu_labels() if self.gpus or self.slices else {}), **self.labels}

    def _gpu_labels(self) -> dict[str, str]:
        product, memory = PRODUCTS[self.model]
        model = gpu_model(self.model)
        major, minor = model.compute_capability
        mig = {f"nvidia.com/mig-{profile}.count": str(count) for profile, count in self.slices.items()}
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(memory),
            "nvidia.com/gpu.count": str(self.gpus + (self.sliced if self.slices else 0)),
            "nvidia.com/gpu.family": "ada-lovelace" if (major, minor) == (8, 9) else _FAMILIES[major],
            "nvidia.com/gpu.compute.major": str(major),
            "nvidia.com/gpu.compute.minor": str(minor),
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/gpu.sharing-strategy": "none",
            "nvidia.com/mig.capable": str(bool(model.profiles)).lower(),
            "nvidia.com/mig.strategy": "mixed",
            **mig,
        }


def played_by_kwok(node: Raw) -> Raw:
    """The same node, for kwok to keep ready and to pretend its pods."""
    key, value = KWOK_NODE
    metadata = {**node["metadata"], "annotations": {**node["metadata"]["annotations"], key: value}}
    return {**node, "metadata": metadata}


def add_nodes(client: httpx.Client, nodes: Iterable[Raw]) -> None:
    """Create them, several at once; raises httpx.HTTPStatusError with the API's answer."""
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for answer in pool.map(lambda node: client.post("/api/v1/nodes", json=node), nodes):
            answer.raise_for_status()


def is_ready(node: Raw) -> bool:
    """Ready, and the controller manager took its not-ready taint off."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    taints = node["spec"].get("taints", [])
    return ready and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
