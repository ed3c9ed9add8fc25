"""What the fabric under a gang adds to its pods: network devices, huge pages, NCCL's settings, helpers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.fabrics import EFA_DEVICES, FABRICS, Daemon, Fabric, Folder
from gpufleet.clusters.kubernetes.rendering.names import Object
from gpufleet.errors import Permanent
from gpufleet.model.hardware import Node

DEVICES: Final = "gpufleet.io/fabric-devices"
"""Label of a node: how many network devices of its fabric it offers."""
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class FabricParts:
    """Pieces of a pod. `resources` maps an extended resource to its quantity."""

    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()
    sidecars: tuple[Object, ...] = ()


def fabric_parts(gang: GangSpec, pod: PodSpec, node: Node, config: PodConfig) -> FabricParts:
    """Nothing for one pod alone, for slices and shares, and where the node has no fabric that is known.

    Raises Permanent where the fabric needs a helper whose image is not configured.
    """
    fabric = FABRICS.get(node.fabric)
    if fabric is None or len(gang.pods) < 2 or not pod.place.gpus:
        return FabricParts()
    if fabric.whole_node and len(pod.place.gpus) < len(node.devices):
        return FabricParts()
    folders = {f.name: f for f in (*fabric.folders, *(fabric.daemon.folders if fabric.daemon else ()))}
    return FabricParts(
        environment=dict(fabric.environment),
        resources=_resources(fabric, pod, node, config),
        annotations=_annotations(fabric, config),
        mounts=tuple(map(_mount, fabric.folders)),
        volumes=tuple(map(_volume, folders.values())),
        sidecars=(_sidecar(fabric.daemon, node, config),) if fabric.daemon else (),
    )


def _resources(fabric: Fabric, pod: PodSpec, node: Node, config: PodConfig) -> Mapping[str, str]:
    """The pod's part of the node's network devices, rounded down, at least one; and its huge pages."""
    if not fabric.resource:
        return {}
    devices = _devices(fabric, node) * len(pod.place.gpus) // max(1, len(node.devices))
    resource = config.fabric_resources.get(fabric.kind, fabric.resource)
    pages = {"hugepages-2Mi": f"{fabric.hugepages_mib}Mi"} if fabric.hugepages_mib else {}
    return {resource: str(max(1, devices)), **pages}


def _devices(fabric: Fabric, node: Node) -> int:
    labels = dict(node.labels)
    said = labels.get(DEVICES, "")
    return int(said) if said.isdecimal() else EFA_DEVICES.get(labels.get(INSTANCE_TYPE, ""), fabric.devices)


def _annotations(fabric: Fabric, config: PodConfig) -> Mapping[str, str]:
    """Multi-networking of GKE, and the device files that its injector gives to the helper."""
    if not fabric.networks or not fabric.daemon:
        return {}
    network_names = config.fabric_networks or tuple(f"vpc{n}" for n in range(1, fabric.networks + 1))
    networks = ["default", *network_names[: fabric.networks]]
    interfaces = [{"interfaceName": f"eth{n}", "network": network} for n, network in enumerate(networks)]
    return {
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": json.dumps(interfaces),
        f"devices.gke.io/container.{fabric.daemon.name}": "".join(f"- path: {d}\n" for d in fabric.daemon.devices),
    }


def _mount(folder: Folder) -> Object:
    read_only = {"readOnly": True} if folder.read_only else {}
    return {"name": folder.name, "mountPath": folder.path, **read_only}


def _volume(folder: Folder) -> Object:
    return {"name": folder.name, **({"hostPath": {"path": folder.source}} if folder.source else {"emptyDir": {}})}


def _sidecar(daemon: Daemon, node: Node, config: PodConfig) -> Object:
    """An init container that is restarted lives as long as the main one and does not keep the pod from ending."""
    image = config.fabric_images.get(node.fabric, "")
    if not image:
        raise Permanent(
            f"Node {node.name} needs {daemon.name} beside each pod, but no image for fabric '{node.fabric}' is configured."
        )
    security: Object = {"capabilities": {"add": list(daemon.capabilities)}, "runAsNonRoot": False, "runAsUser": 0}
    return {
        "name": daemon.name,
        "image": image,
        "restartPolicy": "Always",
        "command": list(daemon.command),
        "env": [{"name": name, "value": value} for name, value in daemon.environment],
        "securityContext": security | ({"privileged": True} if daemon.privileged else {}),
        "volumeMounts": list(map(_mount, daemon.folders)),
    }
