"""`gpufleet kubernetes manifests` and `check` against a real API server.

What the first prints is all that the second asks for, with the rights of our own controller and no more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.kubernetes.test_rendered_objects import apply, folder, gone
from tools.kubernetes.plane import ControlPlane

FLEET = """\
version: 1
fleet: main
clusters:
  - {name: prod, kind: kubernetes, kubeconfig: kubeconfig, pods: {image: "registry.example/job:1"}}
"""
TEAMS = """\
version: 1
queues: [{name: alpha, limit: {"*": 8}}]
teams: [{name: alpha, queue: alpha, projects: [p], namespace: commands-alpha}]
"""
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/mig.strategy": "mixed",
    "topology.kubernetes.io/zone": "z1",
}


@pytest.fixture
def home(tmp_path: Path, control_plane: ControlPlane) -> Path:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "teams.yaml").write_text(TEAMS)
    (tmp_path / "kubeconfig").write_text(control_plane.kubeconfig.read_text())
    return tmp_path


@pytest.fixture
def gpu_node(client: httpx.Client) -> Iterator[str]:
    name = "commands-node"
    client.post("/api/v1/nodes", json={"metadata": {"name": name, "labels": LABELS}}).raise_for_status()
    gpus = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi", "pods": "110"}
    client.patch(
        f"/api/v1/nodes/{name}/status",
        json={"status": {"capacity": gpus, "allocatable": gpus}},
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    yield name
    client.delete(f"/api/v1/nodes/{name}")


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUFLEET_HOME": str(home)}
    asked = [sys.executable, "-m", "gpufleet", "kubernetes", *words]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60)


def findings(home: Path) -> dict[str, dict[str, Any]]:
    answer = command(home, "check", "--json")
    assert answer.returncode in (0, 1), answer.stderr
    return {found["what"]: found for found in json.loads(answer.stdout)["findings"]}


def test_a_cluster_is_told_what_it_must_be_told_and_is_then_found_ready(
    home: Path, client: httpx.Client, gpu_node: str
) -> None:
    before = command(home, "check")
    assert before.returncode == 1
    assert "broken   team alpha: its namespace commands-alpha takes no pod of ours" in before.stdout
    assert "apply what `gpufleet kubernetes manifests` prints" in before.stdout
    printed = command(home, "manifests", "--agent-image", "registry.example/gpufleet:1", "--agent-cloud", "aws")
    assert printed.returncode == 0
    assert printed.stderr == "gpufleet: no node of prod has been seen yet: quotas are left open.\n"
    objects = list(yaml.safe_load_all(printed.stdout))
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    for one in objects:
        apply(client, one)
    try:
        become(home, client, "gpufleet-system", "gpufleet-controller")
        after = findings(home)
        assert {what: found["how"] for what, found in after.items() if what != "nodes"} == {
            "api": "ok", "operator": "warning", "topology": "ok", "mig": "ok", "rights": "ok", "team alpha": "ok",
        }  # fmt: skip
        assert "there is no NVIDIA GPU Operator" in after["operator"]["detail"]
        assert command(home, "check").returncode == 0
    finally:
        place = "/api/v1/namespaces/commands-alpha"
        client.delete(place)
        gone(client, place)


def become(home: Path, client: httpx.Client, namespace: str, account: str) -> None:
    """The commands ask the API as that service account from now on."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token = client.post(path, json={"spec": {"expirationSeconds": 600}}).raise_for_status().json()["status"]["token"]
    config = yaml.safe_load((home / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token}
    (home / "kubeconfig").write_text(yaml.safe_dump(config))


def test_who_may_do_nothing_is_told_so(home: Path, client: httpx.Client, gpu_node: str) -> None:
    become(home, client, "default", "default")
    found = findings(home)
    assert list(found) == ["api"] and "nodes is forbidden" in found["api"]["detail"]


def test_rights_that_are_missing_are_told_by_name(home: Path, client: httpx.Client, gpu_node: str) -> None:
    """As one who may only look."""
    binding = {
        "metadata": {"name": "commands-view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-scheduler"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    client.post(bindings, json=binding).raise_for_status()
    try:
        become(home, client, "default", "default")
        found = findings(home)
        assert found["rights"]["how"] == "broken"
        assert found["rights"]["detail"].startswith("we may not patch nodes; ")
        assert "create pods in commands-alpha" in found["rights"]["detail"]
    finally:
        client.delete(f"{bindings}/commands-view")


def test_quotas_become_queues_of_the_scheduler_that_is_named(home: Path) -> None:
    printed = command(home, "manifests", "--queues", "volcano", "--json")
    kinds = [item["kind"] for item in json.loads(printed.stdout)["items"]]
    assert kinds.count("Queue") == 1 and kinds[0] == "Namespace"
    refused = command(home, "manifests", "--queues", "slurm")
    assert (refused.returncode, "it is kueue, volcano or kai" in refused.stderr) == (2, True)


def test_a_cluster_that_is_not_there_is_one_finding(home: Path) -> None:
    config = yaml.safe_load((home / "kubeconfig").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (home / "kubeconfig").write_text(yaml.safe_dump(config))
    found = findings(home)
    assert list(found) == ["api"] and found["api"]["how"] == "broken"


def test_the_cluster_must_be_named_where_there_is_more_than_one(home: Path) -> None:
    (home / "fleet.yaml").write_text(FLEET + "  - {name: other, kind: kubernetes}\n")
    answer = command(home, "manifests")
    assert answer.returncode == 2
    assert "Name one cluster with --cluster; of kind kubernetes there are: prod, other." in answer.stderr
    assert command(home, "manifests", "--cluster", "other").returncode == 0
    assert "'third' is no cluster" in command(home, "manifests", "--cluster", "third").stderr


def test_a_daemonset_is_taken_as_it_is_printed(home: Path, client: httpx.Client) -> None:
    printed = command(home, "manifests", "--agent-image", "registry.example/gpufleet:1")
    *_, agent = yaml.safe_load_all(printed.stdout)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": agent["metadata"]["namespace"]}}
    apply(client, space)
    answer = client.post(folder(agent), params={"dryRun": "All", "fieldValidation": "Strict"}, json=agent)
    assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text
