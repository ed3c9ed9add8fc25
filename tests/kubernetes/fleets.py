"""Whole fleets on the real control plane: a home, a database, a cluster of kind `kubernetes`, nodes of one test alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.fleets import DEMO
from tests.planes import IMAGE, ready_nodes, unique
from tests.sandboxes import eventually
from tools.kubernetes.nodes import GpuNode, Raw, add_nodes, played_by_kwok

from gpufleet.bootstrap import set_up
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import tick
from gpufleet.services.views import job_view
from gpufleet.settings import load_settings

READY = {"type": "Ready", "status": "True", "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Played:
    """A fleet of one team in one namespace, and the API behind it."""

    fleet: Fleet
    client: httpx.Client
    namespace: str

    @property
    def cluster(self) -> KubernetesCluster:
        found = self.fleet.clusters["east"]
        assert isinstance(found, KubernetesCluster)
        return found

    def submit(self, **asked: Any) -> str:
        request = {"team": "vision", "project": "digits", "command": "train", "image": IMAGE, **asked}
        return submit_job(self.fleet, parse_request(request), Principal("ada")).job

    def tick(self) -> None:
        tick(self.fleet)

    def view(self, job: str) -> dict[str, Any]:
        return job_view(self.fleet, job)

    def until(self, job: str, *states: str, within: float = 30.0) -> dict[str, Any]:
        """Tick until the job is in one of these states."""

        def look() -> dict[str, Any] | None:
            self.tick()
            view = self.view(job)
            return view if view["state"] in states else None

        return eventually(look, within=within)

    def until_it_says(self, job: str, *words: str, within: float = 30.0) -> str:
        """Tick until what a team reads of the job has all these words in it."""

        def look() -> str:
            self.tick()
            told = str(self.view(job))
            return told if all(word in told for word in words) else ""

        return eventually(look, within=within)

    def pods(self) -> list[Raw]:
        """What the API has of us in the namespace."""
        answer = self.client.get(
            f"/api/v1/namespaces/{self.namespace}/pods", params={"labelSelector": "gpufleet.io/fleet"}
        )
        found: list[Raw] = answer.json().get("items", [])
        return found

    def assert_settled(self, job: str, pods: int) -> None:
        """Its live attempt has just these pods, each on a node of its plan, and nothing else of it is left."""
        view = self.view(job)
        number = max(attempt["attempt"] for attempt in view["attempts"])
        labels = [
            pod["metadata"]["labels"] for pod in self.pods() if pod["metadata"]["labels"]["gpufleet.io/job"] == job
        ]
        assert sorted(label["gpufleet.io/rank"] for label in labels) == sorted(map(str, range(pods)))
        assert {label["gpufleet.io/attempt"] for label in labels} == {str(number)}


def kwok_nodes(count: int = 2, gpus: int = 8, **more: Any) -> list[Raw]:
    """Nodes of one leaf whose pods kwok plays."""
    leaf = {"network.topology.nvidia.com/leaf": "l1"}
    return [played_by_kwok(GpuNode(unique("gpu"), gpus=gpus, labels=leaf, **more).raw()) for _ in range(count)]


@contextmanager
def bare_node(client: httpx.Client, gpus: int = 8) -> Iterator[str]:
    """A node that says it is ready and has no kubelet: what its pods go through is for the test to say.

    The controllers believe it for 40 s.
    """
    raw = GpuNode(unique("bare"), gpus=gpus, labels={"network.topology.nvidia.com/leaf": "l1"}).raw()
    raw["status"]["conditions"] = [READY]
    with _node(client, raw) as name:
        yield name


@contextmanager
def _node(client: httpx.Client, raw: Raw) -> Iterator[str]:
    name = raw["metadata"]["name"]
    add_nodes(client, [raw])
    try:
        eventually(lambda: not client.get(f"/api/v1/nodes/{name}").json()["spec"].get("taints"))
        yield name
    finally:
        client.delete(f"/api/v1/nodes/{name}")


def set_status(client: httpx.Client, namespace: str, pod: str, status: Raw) -> None:
    """As its kubelet would."""
    answer = client.patch(
        f"/api/v1/namespaces/{namespace}/pods/{pod}/status",
        json={"status": status},
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )
    assert answer.is_success, answer.text


def patch_node(client: httpx.Client, node: str, body: Raw, part: str = "") -> None:
    answer = client.patch(
        f"/api/v1/nodes/{node}{part}", json=body, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert answer.is_success, answer.text


def lay_out(home: Path, kubeconfig: Path, namespace: str, **recovery: str) -> None:
    """Config of a fleet with one Kubernetes cluster and one team."""
    home.mkdir(parents=True, exist_ok=True)
    world = {"name": "east", "kind": "kubernetes", "kubeconfig": str(kubeconfig)}
    fleet = {"version": 1, "fleet": unique("fleet"), "clusters": [world], "recovery": recovery}
    team = {"name": "vision", "queue": "vision", "projects": ["digits"], "members": [{"login": "ada"}]}
    teams = {"version": 1, "queues": [{"name": "vision"}], "teams": [{**team, "namespace": namespace}]}
    (home / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    (home / "teams.yaml").write_text(yaml.safe_dump(teams))
    (home / "rates.yaml").write_text((DEMO / "rates.yaml").read_text())


def prepare(client: httpx.Client, namespace: str) -> None:
    """What a platform team sets up once; another test may have done it before."""
    account = {"metadata": {"name": "gpufleet-job"}}
    client.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", json=account)
    for kind in priority_classes("any"):
        client.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=kind)


@contextmanager
def played(
    home: Path, kubeconfig: Path, client: httpx.Client, namespace: str, nodes: Sequence[Raw], **recovery: str
) -> Iterator[Played]:
    """A fleet on nodes of its own; everything ends with the block."""
    prepare(client, namespace)
    lay_out(home, kubeconfig, namespace, **{"start_timeout": "4s", "node_backoff": "2s", **recovery})
    with ready_nodes(client, nodes):
        fleet = set_up(load_settings(home, {"GPUFLEET_HOME": str(home)}))
        found = Played(fleet, client, namespace)
        try:
            yield found
        finally:
            found.cluster.close()
            fleet.database.dispose()
            _let_all_go(found)


def _let_all_go(played: Played) -> None:
    """The finalizer would keep the namespace of the test for ever."""
    for pod in played.pods():
        path = f"/api/v1/namespaces/{played.namespace}/pods/{pod['metadata']['name']}"
        body = {"metadata": {"finalizers": None}}
        played.client.patch(path, json=body, headers={"Content-Type": "application/merge-patch+json"})
        played.client.request("DELETE", path, json={"gracePeriodSeconds": 0})
