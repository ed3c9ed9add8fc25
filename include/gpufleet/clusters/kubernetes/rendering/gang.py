"""One attempt of one job as Kubernetes objects: its pods, each pinned to its node, and the Service that names them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.claims import CLAIM, claim, claim_of_pod
from gpufleet.clusters.kubernetes.rendering.environment import (
    CONTROL_FILE,
    CONTROL_FOLDER,
    HOSTFILE,
    environment,
    gang_name,
    hostfile,
    port_of,
)
from gpufleet.clusters.kubernetes.rendering.fabric import FabricParts, fabric_parts
from gpufleet.clusters.kubernetes.rendering.names import Object
from gpufleet.clusters.kubernetes.rendering.override_policy import check_image
from gpufleet.clusters.kubernetes.rendering.overrides import overridden
from gpufleet.clusters.kubernetes.rendering.priorities import priority_class
from gpufleet.clusters.kubernetes.rendering.resources import container_resources, gpu_resources
from gpufleet.errors import Permanent, Refused
from gpufleet.model.hardware import Exactness, Node

SERVE_PORT: Final = "serve"
"""Name of the port on which a replica answers."""
LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class GangObjects:
    """What has to exist for a gang. A gang of one needs no Service and no gate: None, and one pod that starts at once."""

    service: Object | None
    pods: tuple[Object, ...]
    claims: tuple[Object, ...] = ()
    """Of pods on nodes that give devices by DRA: they must exist before the gate opens, and go with the attempt."""


def gang_objects(gang: GangSpec, nodes: Mapping[str, Node], config: PodConfig, fleet: str) -> GangObjects:
    """The objects of a gang, pods by rank. Nothing in them changes from one try to the next.

    Raises Permanent for a job that names nothing to run, Refused where a node cannot give what was planned.
    """
    ranked = sorted(gang.pods, key=lambda pod: pod.rank)
    pods = tuple(_pod(gang, pod, _node(gang, pod, nodes), config, fleet) for pod in ranked)
    labels = names.labels(fleet, team=gang.team, job=gang.job, attempt=gang.attempt)
    claims = tuple(
        claim(pod, gang.namespace, {**labels, names.RANK: str(pod.rank)}, config.dra)
        for pod in ranked
        if is_exact(nodes[pod.place.node])
    )
    return GangObjects(_service(gang, fleet) if len(pods) > 1 else None, pods, claims)


def is_exact(node: Node) -> bool:
    """Whether the node gives the very devices that were planned, by claims (DRA)."""
    return node.exactness is Exactness.DEVICE


def _node(gang: GangSpec, pod: PodSpec, nodes: Mapping[str, Node]) -> Node:
    if pod.place.node not in nodes:
        raise Refused(f"Node {pod.place.node} does not exist: {gang.job} cannot start there.")
    return nodes[pod.place.node]


def _service(gang: GangSpec, fleet: str) -> Object:
    """Headless, and told of pods before they are ready: the ranks meet while they start."""
    labels = names.labels(fleet, team=gang.team, job=gang.job, attempt=gang.attempt)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": gang_name(gang), "namespace": gang.namespace, "labels": labels},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
    }


def _pod(gang: GangSpec, pod: PodSpec, node: Node, config: PodConfig, fleet: str) -> Object:
    labels = names.labels(fleet, team=gang.team, job=gang.job, attempt=gang.attempt)
    fabric = fabric_parts(gang, pod, node, config)
    annotations = {**fabric.annotations, **_annotations(gang, pod)}
    rendered = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.dns_label(pod.name),
            "namespace": gang.namespace,
            "labels": {**labels, names.RANK: str(pod.rank)},
            **({"annotations": annotations} if annotations else {}),
            "finalizers": [names.OBSERVED],
        },
        "spec": _spec(gang, pod, node, config, fabric),
    }
    return overridden(rendered, config.templates.get(gang.team, {}), config.registries)


def _annotations(gang: GangSpec, pod: PodSpec) -> dict[str, str]:
    """Rank 0 launches where MPI does, so it alone carries the list of all hosts."""
    strange = {} if names.label_value(gang.job) == gang.job else {names.JOB_ID: gang.job}
    leads = len(gang.pods) > 1 and pod.rank == min(other.rank for other in gang.pods)
    return strange | ({names.HOSTFILE: hostfile(gang)} if leads else {})


def _spec(gang: GangSpec, pod: PodSpec, node: Node, config: PodConfig, fabric: FabricParts) -> Object:
    together = len(gang.pods) > 1
    return {
        "affinity": _pin(node.name),
        **({"schedulingGates": [{"name": names.GANG_GATE}]} if together else {}),
        **({"hostname": names.dns_label(pod.name), "subdomain": gang_name(gang)} if together else {}),
        "priorityClassName": priority_class(gang.kind),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(1, math.ceil(gang.grace.total_seconds())),
        "serviceAccountName": config.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": _tolerations(config),
        "securityContext": _pod_security(config),
        **({"imagePullSecrets": [{"name": name} for name in config.image_pull_secrets]} if config.image_pull_secrets else {}),
        **({"resourceClaims": [claim_of_pod(pod)]} if is_exact(node) else {}),
        **({"initContainers": list(fabric.sidecars)} if fabric.sidecars else {}),
        "containers": [_container(gang, pod, node, config, fabric)],
        "volumes": [*_volumes(pod, config), *fabric.volumes],
    }  # fmt: skip


def _pin(node: str) -> Object:
    """By name and not by label: a node's hostname label may differ. The kube-scheduler still has its say."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _tolerations(config: PodConfig) -> list[Object]:
    kept = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in config.taints]
    lost = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": config.lost_after}
        for key in LOST
    ]
    return [*kept, *lost]


def _pod_security(config: PodConfig) -> Object:
    """What the Pod Security level `restricted` asks for."""
    return {
        "runAsNonRoot": True,
        "runAsUser": config.user,
        "runAsGroup": config.user,
        "fsGroup": config.user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _container(gang: GangSpec, pod: PodSpec, node: Node, config: PodConfig, fabric: FabricParts) -> Object:
    image = pod.container.image or config.image
    if not image:
        raise Permanent(f"{gang.job} names no image and this cluster has no default one: submit it with --image.")
    check_image(image, config.registries)
    if not pod.container.command:
        raise Permanent(f"{gang.job} names no command: there is nothing to run.")
    variables = {**fabric.environment, **environment(gang, pod, node, config)}
    return {
        "name": names.MAIN,
        "image": image,
        "command": [names.verbatim(word) for word in pod.container.command],
        "env": [{"name": name, "value": names.verbatim(value)} for name, value in sorted(variables.items())],
        "envFrom": [{"secretRef": {"name": config.checkpoint_secret, "optional": True}}],
        "ports": [{"name": SERVE_PORT, "containerPort": port_of(pod.name)}],
        "resources": _resources(pod, node, fabric),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "control", "mountPath": CONTROL_FOLDER, "readOnly": True},
            *fabric.mounts,
        ],
    }


def _resources(pod: PodSpec, node: Node, fabric: FabricParts) -> Object:
    if is_exact(node):
        return {**container_resources(pod.place, {}, fabric.resources), "claims": [{"name": CLAIM}]}
    return container_resources(pod.place, gpu_resources(pod.place, node), fabric.resources)


def _volumes(pod: PodSpec, config: PodConfig) -> list[Object]:
    """/dev/shm for the ranks of one pod; it counts as memory of the container, so it has at most half of that."""
    asked = pod.place.memory_mib
    shared = config.shared_memory_mib if asked is None else max(1, asked // 2)
    files = [
        {"path": path.removeprefix(f"{CONTROL_FOLDER}/"), "fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
        for path, key in ((CONTROL_FILE, names.SAVE_REQUEST), (HOSTFILE, names.HOSTFILE))
    ]
    return [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared}Mi"}},
        {"name": "control", "downwardAPI": {"items": files}},
    ]
