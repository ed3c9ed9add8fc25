"""A team's room on a cluster: its namespace and what fences it in. Kept in step with the quota tree, as a second fence.

The first fence is our pass, which knows models and slices exactly; the ResourceQuota bounds what could get past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.fabrics import FABRICS
from gpufleet.clusters.kubernetes.rendering.gang import SERVE_PORT
from gpufleet.clusters.kubernetes.rendering.names import FLEET, TEAM, Object, label_value
from gpufleet.clusters.kubernetes.rendering.quotas import limits_of, quota_of, units
from gpufleet.clusters.kubernetes.rendering.rbac import team_bindings
from gpufleet.clusters.kubernetes.rendering.resources import GPU
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Queue, Team

_POD_SECURITY: Final = "pod-security.kubernetes.io"
_METADATA_SERVICES: Final = ("169.254.169.254/32", "fd00:ec2::254/128")
"""Where clouds hand out a node's own credentials."""
NAME: Final = "gpufleet-team"
"""Of the objects that fence a team in."""


def team_objects(
    fleet: str, team: Team, queues: Iterable[Queue], nodes: Iterable[Node], config: PodConfig
) -> tuple[Object, ...]:
    """Everything a team needs on a cluster, in the order in which it is applied."""
    labels = {FLEET: label_value(fleet), TEAM: label_value(team.name)}
    nodes = tuple(nodes)
    return (
        _namespace(team.namespace, labels, pod_security_level(nodes)),
        _service_account(team.namespace, labels, config),
        _network_policy(team.namespace, labels, config),
        *fences(fleet, team, queues, nodes),
        *team_bindings(team.namespace, labels),
    )


def fences(fleet: str, team: Team, queues: Iterable[Queue], nodes: Iterable[Node]) -> tuple[Object, Object]:
    """What follows from the quota tree and the nodes, and changes with them: ResourceQuota and LimitRange."""
    labels, nodes = {FLEET: label_value(fleet), TEAM: label_value(team.name)}, tuple(nodes)
    return (
        _resource_quota(team.namespace, labels, limits_of(team.queue, queues), nodes),
        _limit_range(team.namespace, labels, nodes),
    )


def pod_security_level(nodes: Iterable[Node]) -> str:
    """`privileged` where a fabric needs a helper or files of the node in each pod, else `restricted`."""
    fabrics = [FABRICS[node.fabric] for node in nodes if node.fabric in FABRICS]
    return "privileged" if any(fabric.daemon or fabric.folders for fabric in fabrics) else "restricted"


def _namespace(name: str, labels: Mapping[str, str], level: str) -> Object:
    modes = {f"{_POD_SECURITY}/{mode}": level for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**labels, **modes}}}


def _service_account(namespace: str, labels: Mapping[str, str], config: PodConfig) -> Object:
    """Jobs never speak to the API; a cloud's workload identity is bound to this account by its annotations."""
    metadata: Object = {"name": config.service_account, "namespace": namespace, "labels": dict(labels)}
    if config.identity_annotations:
        metadata["annotations"] = dict(config.identity_annotations)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }


def _network_policy(namespace: str, labels: Mapping[str, str], config: PodConfig) -> Object:
    """Pods of a team reach each other and the world; of others, only callers reach its replicas."""
    own: Object = {"podSelector": {}}
    closed = () if config.metadata_service else _METADATA_SERVICES
    world = [
        {"ipBlock": {"cidr": cidr, **({"except": [address]} if address in closed else {})}}
        for cidr, address in zip(("0.0.0.0/0", "::/0"), _METADATA_SERVICES, strict=True)
    ]
    callers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in config.callers]
    calls = [{"from": callers, "ports": [{"protocol": "TCP", "port": SERVE_PORT}]}] if callers else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [own]}, *calls],
            "egress": [{"to": [own]}, {"to": [{"namespaceSelector": {}}], "ports": _dns()}, {"to": world}],
        },
    }


def _dns() -> list[Object]:
    return [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]


def _resource_quota(
    namespace: str, labels: Mapping[str, str], limits: Mapping[str, Fraction], nodes: tuple[Node, ...]
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {"hard": quota_of(limits, nodes)},
    }


def _limit_range(namespace: str, labels: Mapping[str, str], nodes: tuple[Node, ...]) -> Object:
    """No container asks for more GPUs than the largest node has.

    The default of none is said, for the API would make the most the default of every container that asks for none.
    """
    most = max((len(node.devices) * units(node) for node in nodes), default=0)
    none = {GPU: "0"}
    bound = {"type": "Container", "max": {GPU: str(most)}, "default": none, "defaultRequest": none}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {"limits": [bound] if most else []},
    }
