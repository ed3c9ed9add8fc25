"""A real API server takes what we render: no unknown field, no refused value, and the fences hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.builders import instance, on, queue
from tests.gangs import CONFIG, GOLDEN, counted, gang, rendered
from tests.sandboxes import eventually
from tools.kubernetes.families import already_built
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.mig.layouts import Layout, config_map, with_layouts
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.clusters.kubernetes.rendering.rbac import (
    AGENT_EVERYWHERE,
    AGENT_IN_TEAMS,
    CONTROLLER,
    CONTROLLER_EVERYWHERE,
    CONTROLLER_IN_TEAMS,
    NODE_AGENT,
    SYSTEM_NAMESPACE,
    Right,
    installation_objects,
)
from gpufleet.clusters.kubernetes.rendering.tenancy import team_objects
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.tenancy import Team

VISION = Team("vision", "vision", ("p",), namespace="gpufleet-vision")
SPEECH = Team("speech", "speech", ("p",), namespace="gpufleet-speech")
QUEUES = (queue("vision", limit=8), queue("speech", limit=8))
NODES = tuple(counted(f"n{i}") for i in range(2))
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "Topology": "topologies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
CLUSTER_WIDE = {
    "Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Topology",
    "ResourceFlavor", "Cohort", "ClusterQueue", "WorkloadPriorityClass",
}  # fmt: skip
Raw = dict[str, Any]


def folder(one: Mapping[str, Any]) -> str:
    """Where the API keeps objects of that kind and namespace."""
    group, kind, metadata = one["apiVersion"], one["kind"], one["metadata"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    place = "" if kind in CLUSTER_WIDE else f"/namespaces/{metadata['namespace']}"
    return f"{root}{place}/{PLURALS.get(kind, kind.lower() + 's')}"


def apply(client: httpx.Client, one: Raw) -> None:
    """Server-side, refusing any field the API does not know."""
    answer = client.patch(
        f"{folder(one)}/{one['metadata']['name']}",
        params={"fieldManager": "gpufleet", "fieldValidation": "Strict", "force": "true"},
        headers={"Content-Type": "application/apply-patch+yaml"},
        content=yaml.safe_dump(one),
    )
    assert answer.is_success, answer.text


def try_out(client: httpx.Client, one: Raw) -> httpx.Response:
    """Create it and take it back: everything is checked, admission included, and nothing is kept."""
    return client.post(folder(one), params={"dryRun": "All", "fieldValidation": "Strict"}, json=one)


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[httpx.Client]:
    with control_plane.client() as client:
        yield from install(client)


def install(client: httpx.Client) -> Iterator[httpx.Client]:
    """What `gpufleet kubernetes manifests` prints for two teams, applied; afterwards the teams are gone."""
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    objects = [*installation_objects("main"), *priority_classes("main")]
    for team in (VISION, SPEECH):
        objects += team_objects("main", team, QUEUES, NODES, PodConfig())
    for one in objects:
        apply(client, one)
    for team in (VISION, SPEECH):
        eventually(lambda team=team: _counted(client, team.namespace))
    yield client
    homes = [f"{folder(one)}/{one['metadata']['name']}" for one in objects if one["kind"] == "Namespace"]
    for home in homes:
        client.delete(home)
    for home in homes:
        gone(client, home)


def gone(client: httpx.Client, home: str) -> None:
    """Wait until a namespace that was deleted is there no more; fails with what it still waits for.

    Its controller tries again after longer and longer waits, up to a minute each, so one wait of a minute is not enough.
    """
    try:
        eventually(lambda: client.get(home).status_code == httpx.codes.NOT_FOUND, within=180)
    except AssertionError as why:
        raise AssertionError(f"{why} {client.get(home).json().get('status')}") from None


def _counted(client: httpx.Client, namespace: str) -> bool:
    """The quota is enforced once its controller has counted."""
    answer = client.get(f"/api/v1/namespaces/{namespace}/resourcequotas/gpufleet-team").json()
    return "requests.nvidia.com/gpu" in answer.get("status", {}).get("used", {})


def golden(*skipped: str) -> list[tuple[str, Raw]]:
    files = sorted(path for path in GOLDEN.glob("*.yaml") if not any(word in path.name for word in skipped))
    return [(path.name, one) for path in files for one in yaml.safe_load_all(path.read_text())]


def test_every_pod_service_and_claim_is_taken_in_a_restricted_namespace(installed: httpx.Client) -> None:
    tried = 0
    for name, one in golden("quotas", "tcpx"):
        if one["kind"] in ("Pod", "Service", "ResourceClaim"):
            answer = try_out(installed, one)
            assert answer.is_success, f"{name}: {answer.text}"
            assert not answer.headers.get("Warning"), answer.headers["Warning"]
            tried += 1
    assert tried > 10


def test_a_fabric_that_needs_the_nodes_files_is_taken_only_where_its_namespace_allows_it(
    installed: httpx.Client,
) -> None:
    pods = [one for name, one in golden() if "tcpx" in name]
    for fabric, answer in (("", 403), ("tcpxo", 201), ("", 403)):
        for one in team_objects("main", VISION, QUEUES, (counted("n0", fabric=fabric),), PodConfig()):
            apply(installed, one)
        told = [try_out(installed, one) for one in pods]
        assert [t.status_code for t in told] == [answer, answer], [t.text for t in told]


def test_a_team_cannot_get_past_its_limit_even_without_us(installed: httpx.Client) -> None:
    (pod,) = rendered(gang(on("n0", *range(8))), *NODES).pods
    assert try_out(installed, pod).is_success
    first = installed.post(folder(pod), json=pod)
    assert first.is_success, first.text
    (other,) = rendered(gang(on("n0", 0), job="second"), *NODES).pods
    answer = try_out(installed, other)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert (
        "exceeded quota: gpufleet-team, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8"
        in answer.text
    )
    path = f"{folder(pod)}/{pod['metadata']['name']}"
    forget = {"metadata": {"finalizers": None}}
    installed.patch(path, json=forget, headers={"Content-Type": "application/merge-patch+json"}).raise_for_status()
    installed.delete(path, params={"gracePeriodSeconds": "0"}).raise_for_status()


def test_a_container_that_asks_for_no_gpu_is_given_none(installed: httpx.Client) -> None:
    (pod,) = rendered(gang(on("n0", slices=["0:1g.10gb@6"])), *NODES).pods
    answer = try_out(installed, pod)
    assert answer.is_success, answer.text
    taken = answer.json()
    limits = taken["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["nvidia.com/mig-1g.10gb"]) == ("0", "1")


def may(client: httpx.Client, account: str, verb: str, right: Right, resource: str, namespace: str = "") -> bool:
    kind, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": right.group, "resource": kind, "subresource": sub, "namespace": namespace}
    answer = client.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json={"spec": {"resourceAttributes": asked}},
        headers={
            "Impersonate-User": f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}",
            "Impersonate-Group": "system:authenticated",
        },
    )
    return bool(answer.raise_for_status().json()["status"]["allowed"])


def test_our_programs_may_do_what_they_need_and_over_pods_only_in_the_teams_namespaces(installed: httpx.Client) -> None:
    for account, everywhere, in_teams in (
        (CONTROLLER, CONTROLLER_EVERYWHERE, CONTROLLER_IN_TEAMS),
        (NODE_AGENT, AGENT_EVERYWHERE, AGENT_IN_TEAMS),
    ):
        for right in everywhere:
            assert all(may(installed, account, v, right, r) for v in right.verbs for r in right.resources)
        for right in in_teams:
            assert all(
                may(installed, account, v, right, r, VISION.namespace) for v in right.verbs for r in right.resources
            )
    pods, secrets, nodes = Right("", ("pods",), ()), Right("", ("secrets",), ()), Right("", ("nodes",), ())
    for account in (CONTROLLER, NODE_AGENT):
        assert not may(installed, account, "delete", pods, "pods", "kube-system")
        assert not may(installed, account, "create", pods, "pods/exec", VISION.namespace)
        assert not may(installed, account, "get", secrets, "secrets", VISION.namespace)
        assert not may(installed, account, "delete", nodes, "nodes")
    assert not may(installed, NODE_AGENT, "create", pods, "pods", VISION.namespace)


def test_the_file_of_mig_layouts_is_taken(installed: httpx.Client) -> None:
    layout = Layout.of(gpu_model("H100-80"), [[instance("3g.40gb@0")], []])
    assert try_out(installed, config_map(with_layouts({}, [layout]), "gpu-operator")).is_success


def test_kueue_knows_every_field_of_the_quotas(installed: httpx.Client) -> None:
    definitions = [yaml.safe_load(path.read_text()) for path in crds()]
    for one in definitions:
        one["spec"].pop("conversion", None)
        apply(installed, one)
    for one in definitions:
        eventually(lambda one=one: _is_served(installed, one), within=60)
    try:
        tried = [try_out(installed, one) for name, one in golden() if name == "kueue-quotas.yaml"]
        assert len(tried) > 8 and [answer.text for answer in tried if not answer.is_success] == []
    finally:
        for one in definitions:
            installed.delete(f"{folder(one)}/{one['metadata']['name']}")


def crds() -> list[Path]:
    return already_built("kueue").kept("kueue", "config/components/crd/bases/*.yaml")


def _is_served(client: httpx.Client, definition: Raw) -> bool:
    spec = definition["spec"]
    return client.get(f"/apis/{spec['group']}/v1beta2/{spec['names']['plural']}").is_success or not any(
        version["name"] == "v1beta2" for version in spec["versions"]
    )


def test_the_default_pod_is_restricted_enough(installed: httpx.Client) -> None:
    (pod,) = rendered(gang(on("n0", 0)), *NODES, config=CONFIG).pods
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert "violates PodSecurity" in try_out(installed, pod).text
