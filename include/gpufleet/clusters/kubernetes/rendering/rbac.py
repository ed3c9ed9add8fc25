"""Rights of our two programs: the controller, and the agent on each node. Rights over a team's pods end at its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, label_value

SYSTEM_NAMESPACE: Final = "gpufleet-system"
CONTROLLER: Final = "gpufleet-controller"
NODE_AGENT: Final = "gpufleet-node-agent"
_API: Final = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on resources of one API group (empty = the core)."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


READ: Final = ("get", "list", "watch")
CONTROLLER_EVERYWHERE: Final = (
    Right("", ("nodes",), (*READ, "patch")),
    Right("", ("pods",), READ),  # those of others are subtracted
    Right("", ("namespaces",), READ),
    Right("", ("services",), ("list",)),  # of an attempt, whatever its team
    Right("resource.k8s.io", ("deviceclasses", "resourceslices", "resourceclaims"), READ),  # claims of others, too
    Right("nvidia.com", ("clusterpolicies",), READ),
    Right("kueue.x-k8s.io", ("workloads",), READ),
    Right("scheduling.volcano.sh", ("podgroups",), READ),
    Right("scheduling.run.ai", ("podgroups",), READ),
)
CONTROLLER_IN_TEAMS: Final = (
    Right("", ("pods", "services"), ("create", "delete", "patch")),
    Right("", ("pods/eviction",), ("create",)),
    Right("", ("pods/log",), ("get",)),
    Right("", ("services",), READ),
    Right("", ("resourcequotas", "limitranges"), ("get", "create", "patch")),
    Right("resource.k8s.io", ("resourceclaims",), (*READ, "create", "delete", "patch")),
    Right("batch", ("jobs",), (*READ, "create", "delete", "patch")),
    Right("kueue.x-k8s.io", ("workloads",), ("delete",)),
    Right("scheduling.volcano.sh", ("podgroups",), ("create", "delete", "patch")),
    Right("scheduling.run.ai", ("podgroups",), ("create", "delete", "patch")),
)
AGENT_EVERYWHERE: Final = (Right("", ("nodes",), ("get", "patch")),)
AGENT_IN_TEAMS: Final = (Right("", ("pods",), ("list", "patch", "delete")),)
CONTROLLER_IN_OPERATOR: Final = (Right("", ("configmaps",), ("get", "create", "patch")),)
"""The MIG manager reads its layouts from a ConfigMap in the operator's namespace."""


def installation_objects(fleet: str, operator_namespace: str = "gpu-operator") -> tuple[Object, ...]:
    """Accounts and rights, once per cluster."""
    labels = {FLEET: label_value(fleet)}
    privileged = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    return (
        _object("v1", "Namespace", SYSTEM_NAMESPACE, {**labels, **privileged}),  # the agent reads a socket of the node
        *(_object("v1", "ServiceAccount", name, labels, SYSTEM_NAMESPACE) for name in (CONTROLLER, NODE_AGENT)),
        _role("ClusterRole", CONTROLLER, labels, CONTROLLER_EVERYWHERE),
        _role("ClusterRole", _in_teams(CONTROLLER), labels, CONTROLLER_IN_TEAMS),
        _role("ClusterRole", NODE_AGENT, labels, AGENT_EVERYWHERE),
        _role("ClusterRole", _in_teams(NODE_AGENT), labels, AGENT_IN_TEAMS),
        _binding("ClusterRoleBinding", CONTROLLER, CONTROLLER, labels),
        _binding("ClusterRoleBinding", NODE_AGENT, NODE_AGENT, labels),
        _role("Role", CONTROLLER, labels, CONTROLLER_IN_OPERATOR, operator_namespace),
        _binding("RoleBinding", CONTROLLER, CONTROLLER, labels, operator_namespace, role_kind="Role"),
    )


def team_bindings(namespace: str, labels: Mapping[str, str]) -> tuple[Object, ...]:
    """The rights over one team's pods, in that team's namespace alone."""
    return tuple(
        _binding("RoleBinding", name, name.removesuffix("-in-teams"), labels, namespace)
        for name in (_in_teams(CONTROLLER), _in_teams(NODE_AGENT))
    )


def _in_teams(name: str) -> str:
    return f"{name}-in-teams"


def _object(api: str, kind: str, name: str, labels: Mapping[str, str], namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **place, "labels": dict(labels)}}


def _role(kind: str, name: str, labels: Mapping[str, str], rights: tuple[Right, ...], namespace: str = "") -> Object:
    rules = [{"apiGroups": [r.group], "resources": list(r.resources), "verbs": list(r.verbs)} for r in rights]
    return {**_object(_API, kind, name, labels, namespace), "rules": rules}


def _binding(
    kind: str,
    name: str,
    account: str,
    labels: Mapping[str, str],
    namespace: str = "",
    *,
    role_kind: str = "ClusterRole",
) -> Object:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name}
    return {**_object(_API, kind, name, labels, namespace), "roleRef": role, "subjects": [subject]}
