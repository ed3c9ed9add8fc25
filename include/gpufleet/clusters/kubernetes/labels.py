"""Which labels, resources and taints mean what on a node: ordered lists, the first that is there counts.

Sources: AWS "instance topology" labels of EKS; Google's GKE topology labels; OCI's host labels; CoreWeave's backend
labels; NVIDIA topograph (both generations of its keys); GPU Feature Discovery; Karpenter, EKS, GKE and AKS on spot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpufleet.model.capacity import CapacityType

SPOT, ON_DEMAND, RESERVED, OWNED = CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.RESERVED, CapacityType.OWNED

LAYOUT: Final = "gpufleet.io/mig-layout"
"""Annotation of a node: the MIG instances we asked for, GPU by GPU, as `3:1g.10gb@6 3:3g.40gb@0`."""
PLANNED: Final = "gpufleet.io/devices"
"""Annotation of a pod: the devices it was planned for, as GPUFLEET_DEVICES tells them."""
FABRIC: Final = "gpufleet.io/fabric"
FABRIC_DEVICES: Final = "gpufleet.io/fabric-devices"
CAPACITY: Final = "gpufleet.io/capacity"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the topology above the node, and the labels that name its domains."""

    name: str
    labels: tuple[str, ...]


LEVELS: Final = (
    Level("zone", ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")),
    Level(
        "core",
        (
            "topology.k8s.aws/network-node-layer-1",
            "backend.coreweave.cloud/fabric",
            "fabric.topograph.run/tier-2",
            "network.topology.nvidia.com/core",
            "network.topology.nvidia.com/datacenter",
        ),
    ),
    Level(
        "spine",
        (
            "topology.k8s.aws/network-node-layer-2",
            "cloud.google.com/gce-topology-block",
            "oci.oraclecloud.com/host.network_block_id",
            "backend.coreweave.cloud/superpod",
            "fabric.topograph.run/tier-1",
            "network.topology.nvidia.com/spine",
        ),
    ),
    Level(
        "leaf",
        (
            "topology.k8s.aws/network-node-layer-3",
            "cloud.google.com/gce-topology-subblock",
            "oci.oraclecloud.com/host.rack_id",
            "backend.coreweave.cloud/leafgroup",
            "fabric.topograph.run/tier-0",
            "network.topology.nvidia.com/leaf",
            "network.topology.nvidia.com/block",
        ),
    ),
    Level("nvlink", ("nvidia.com/gpu.clique", "ds.coreweave.com/nvlink.domain", "network.topology.nvidia.com/accelerator")),
)  # fmt: skip
"""Broad to narrow. A level that no node of the cluster knows is not there at all."""

MODELS: Final = (
    "gpufleet.io/model",
    "nvidia.com/gpu.product",
    "gpu.nvidia.com/class",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
)

CAPACITIES: Final[tuple[tuple[str, str, CapacityType], ...]] = (
    (CAPACITY, "spot", SPOT),
    (CAPACITY, "on-demand", ON_DEMAND),
    (CAPACITY, "reserved", RESERVED),
    (CAPACITY, "owned", OWNED),
    ("karpenter.sh/capacity-type", "spot", SPOT),
    ("karpenter.sh/capacity-type", "reserved", RESERVED),
    ("karpenter.sh/capacity-type", "on-demand", ON_DEMAND),
    ("eks.amazonaws.com/capacityType", "SPOT", SPOT),
    ("eks.amazonaws.com/capacityType", "CAPACITY_BLOCK", RESERVED),
    ("eks.amazonaws.com/capacityType", "ON_DEMAND", ON_DEMAND),
    ("cloud.google.com/gke-spot", "true", SPOT),
    ("cloud.google.com/gke-preemptible", "true", SPOT),
    ("cloud.google.com/reservation-name", "", RESERVED),
    ("kubernetes.azure.com/scalesetpriority", "spot", SPOT),
    ("topology.k8s.aws/capacity-block-id", "", RESERVED),
)
"""(label, value, what it says); an empty value = any."""

LEAVING: Final = (
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
    "cloudprovider.azure.microsoft.com/draining",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
    "gpufleet.io/reclaiming",
)
"""Taints of a node that goes away soon."""

TOLERATED: Final = (
    "nvidia.com/gpu",
    "node.kubernetes.io/unschedulable",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Taints that keep none of our pods away. `unschedulable` only repeats the node's own field, later."""

FABRICS: Final = (
    ("vpc.amazonaws.com/efa", "efa"),
    ("rdma/ib", "infiniband"),
    ("rdma/roce", "roce"),
)
"""(extended resource, fabric)."""
MACHINES: Final = (("a3-megagpu", "tcpxo"), ("a3-highgpu", "tcpx"))
"""(start of the instance type, fabric)."""


@dataclass(frozen=True, slots=True)
class SeeingConfig:
    """How the nodes of one cluster are read; every list is ordered, the first match counts."""

    levels: tuple[Level, ...] = LEVELS
    models: tuple[str, ...] = MODELS
    capacities: tuple[tuple[str, str, CapacityType], ...] = CAPACITIES
    leaving: tuple[str, ...] = LEAVING
    tolerated: tuple[str, ...] = TOLERATED
    fabrics: tuple[tuple[str, str], ...] = FABRICS
    remake_mig: bool = False
    """Whether the MIG manager may be asked for other layouts (the DAG mig_repartition)."""


def seeing_config(
    *,
    levels: tuple[tuple[str, tuple[str, ...]], ...] = (),
    models: tuple[str, ...] = (),
    tolerated: tuple[str, ...] = (),
    remake_mig: bool = False,
) -> SeeingConfig:
    """The lists of an installation: its own levels stand in for ours, its other words come before and beside ours."""
    return SeeingConfig(
        levels=tuple(Level(name, labels) for name, labels in levels) or LEVELS,
        models=(*models, *MODELS),
        tolerated=(*TOLERATED, *tolerated),
        remake_mig=remake_mig,
    )
