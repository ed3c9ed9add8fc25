"""Hand-off to a real Kueue: our pods, our quotas, and what it says about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.builders import job, pods
from tests.kubernetes.kueues import LEVELS, NODES, SPACES, nodes_of_kueue
from tests.kubernetes.test_rendered_objects import folder
from tests.sandboxes import eventually
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.handed import Admission, Stage
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.handoff import kueue as handing
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HandedOver
from gpufleet.model.workload import Container, Job

CONFIG = PodConfig(image="registry.example/job:1", service_account="default")


@dataclass
class World:
    """Four nodes of eight GPUs in two racks, all Kueue's; two queues that deserve half each."""

    client: httpx.Client

    def submit(self, asked: Job) -> HandedOver:
        team = asked.team
        container = Container(("python", "train.py"), "registry.example/job:1")
        handed = HandedOver(asked, 1, SPACES[team], container, NODES, LEVELS, "main", CONFIG)
        for one in handing.job_objects(handed):
            answer = self.client.post(folder(one), params={"fieldValidation": "Strict"}, json=one)
            assert answer.is_success, answer.text
        return handed

    def says(self, handed: HandedOver) -> Admission:
        answer = self.client.get(self._workload(handed))
        return handing.admission(answer.json() if answer.is_success else None)

    def until(self, handed: HandedOver, stage: Stage) -> Admission:
        return eventually(lambda: found if (found := self.says(handed)).stage is stage else None)

    def nodes_of(self, handed: HandedOver) -> set[str]:
        """Where its pods run, once they all do."""
        pods = self.client.get(f"/api/v1/namespaces/{handed.namespace}/pods").json()["items"]
        mine = [p for p in pods if p["metadata"]["labels"].get("gpufleet.io/job") == handed.job.id]
        running = [p["spec"]["nodeName"] for p in mine if p["status"].get("phase") == "Running"]
        return set(running) if len(running) == handed.job.pods else set()

    def take_away(self, handed: HandedOver) -> None:
        """Workload first: deleting the pods alone gives no quota back."""
        self.client.delete(self._workload(handed))
        pods = f"/api/v1/namespaces/{handed.namespace}/pods"
        for pod in self.client.get(pods).json()["items"]:
            if pod["metadata"]["labels"].get("gpufleet.io/job") == handed.job.id:
                path = f"{pods}/{pod['metadata']['name']}"
                forget = {"metadata": {"finalizers": None}}
                self.client.patch(path, json=forget, headers={"Content-Type": "application/merge-patch+json"})
                self.client.delete(path, params={"gracePeriodSeconds": "0"})

    def _workload(self, handed: HandedOver) -> str:
        return f"/apis/{handing.API}/namespaces/{handed.namespace}/workloads/{handing.workload_name(handed)}"


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane) -> Iterator[World]:
    with control_plane.client() as client, nodes_of_kueue(client, control_plane):
        yield World(client)


def ask(name: str, team: str, count: int, **more: Any) -> Job:
    return job(name, pods(count, gpus=8), queue=team, **more)


def test_a_gang_is_admitted_and_runs_inside_one_rack(world: World) -> None:
    handed = world.submit(ask("fits", "owner", 2, required="leaf"))
    assert world.until(handed, Stage.ADMITTED)
    nodes = eventually(lambda: world.nodes_of(handed))
    assert len({node[-2] for node in nodes}) == 1
    world.take_away(handed)


def test_what_is_over_the_quota_waits_with_kueues_own_reason(world: World) -> None:
    handed = world.submit(ask("large", "owner", 5))
    found = world.until(handed, Stage.WAITING)
    assert "insufficient quota for nvidia.com/gpu" in eventually(lambda: world.says(handed).detail or None)
    assert found.position is None, "the visibility API is not served here"
    world.take_away(handed)


def test_what_was_lent_is_taken_back_and_the_eviction_is_told(world: World) -> None:
    borrowed = world.submit(ask("borrows", "borrower", 4))
    assert world.until(borrowed, Stage.ADMITTED)
    own = world.submit(ask("owns", "owner", 2))
    evicted = world.until(borrowed, Stage.EVICTED)
    assert evicted.reason == "Preempted"
    world.take_away(borrowed)
    assert world.until(own, Stage.ADMITTED)
    world.take_away(own)
