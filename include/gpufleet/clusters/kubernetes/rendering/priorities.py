"""Priority classes, by kind of job. They never preempt: who gives way to whom is decided by our pass alone.

The values matter to others only: to the kubelet when a node runs short of memory, and to schedulers beside ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, label_value
from gpufleet.model.workload import Kind

VALUES: Final[Mapping[Kind, int]] = MappingProxyType(
    {Kind.TRAINING: 1_000, Kind.INTERACTIVE: 2_000, Kind.INFERENCE: 10_000}
)


def priority_class(kind: Kind) -> str:
    return f"gpufleet-{kind}"


def priority_classes(fleet: str) -> tuple[Object, ...]:
    return tuple(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": priority_class(kind), "labels": {FLEET: label_value(fleet)}},
            "value": value,
            "globalDefault": False,
            "preemptionPolicy": "Never",
            "description": f"Pods of {kind} jobs of gpufleet.",
        }
        for kind, value in VALUES.items()
    )
