"""The DaemonSet of our node agent (`gpufleet.node_agent`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, label_value
from gpufleet.clusters.kubernetes.rendering.rbac import NODE_AGENT, SYSTEM_NAMESPACE

_SOCKETS: Final = "/var/lib/kubelet/pod-resources"
_APP: Final = "gpufleet.io/app"


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """`image` has gpufleet in it; `cloud` is aws, gcp, azure, or empty where nobody announces anything."""

    image: str
    cloud: str = ""
    taints: tuple[str, ...] = ("nvidia.com/gpu",)


def node_agent(fleet: str, namespaces: Iterable[str], config: AgentConfig) -> Object:
    """One pod on every node with GPUs. The node's network, for metadata services answer only one hop away."""
    labels = {FLEET: label_value(fleet), _APP: NODE_AGENT}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NODE_AGENT, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": NODE_AGENT,
                    "hostNetwork": True,
                    "dnsPolicy": "ClusterFirstWithHostNet",
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"nvidia.com/gpu.present": "true"},
                    "tolerations": [{"key": key, "operator": "Exists"} for key in config.taints],
                    "containers": [_container(fleet, namespaces, config)],
                    "volumes": [{"name": "pod-resources", "hostPath": {"path": _SOCKETS, "type": "Directory"}}],
                },
            },
        },
    }


def _container(fleet: str, namespaces: Iterable[str], config: AgentConfig) -> Object:
    """`nvidia-smi` is put into it by NVIDIA's runtime, and takes no GPU away from anybody."""
    told = {
        "GPUFLEET_FLEET": label_value(fleet),
        "GPUFLEET_NAMESPACES": ",".join(sorted(namespaces)),
        "GPUFLEET_CLOUD": config.cloud,
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    node = {"name": "GPUFLEET_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return {
        "name": "agent",
        "image": config.image,
        "command": ["python", "-m", "gpufleet.node_agent"],
        "env": [{"name": name, "value": value} for name, value in sorted(told.items())] + [node],
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "192Mi"}},
        "securityContext": {
            "runAsUser": 0,  # the socket is root's
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "pod-resources", "mountPath": _SOCKETS, "readOnly": True}],
    }
