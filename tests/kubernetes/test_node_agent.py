"""The node agent at a real API server, with no more rights than the manifests give it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx
import pytest
from tests.builders import NOW, on
from tests.gangs import counted, gang, rendered
from tests.kubernetes.test_rendered_objects import SPEECH, VISION, folder, install
from tools.kubernetes.plane import ControlPlane

from gpufleet.clock import ManualClock
from gpufleet.clusters.kubernetes.rendering.rbac import NODE_AGENT, SYSTEM_NAMESPACE
from gpufleet.node_agent.agent import Agent
from gpufleet.node_agent.cluster import NodeApi
from gpufleet.node_agent.notices import Kind, Notice

NODE = "agents-node"
SPOT = Notice("n-1", Kind.SPOT, NOW, NOW + timedelta(seconds=30))


class Cloud:
    """Announces what it is told to."""

    says: tuple[Notice, ...] = ()

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        return self.says


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[httpx.Client]:
    with control_plane.client() as client:
        node = {"metadata": {"name": NODE}, "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}
        client.post("/api/v1/nodes", json=node).raise_for_status()
        yield from install(client)
        client.delete(f"/api/v1/nodes/{NODE}")


def as_the_agent(client: httpx.Client) -> httpx.Client:
    client.headers["Impersonate-User"] = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{NODE_AGENT}"
    return client


def test_at_a_notice_the_pods_of_the_node_are_ended_and_the_node_is_told(
    installed: httpx.Client, control_plane: ControlPlane
) -> None:
    (pod,) = rendered(gang(on(NODE, 0)), counted(NODE)).pods
    pod["spec"]["nodeName"] = NODE  # no kubelet is there, so it stays where it is put
    path = f"{folder(pod)}/{pod['metadata']['name']}"
    installed.post(folder(pod), json=pod).raise_for_status()
    cloud = Cloud()
    with control_plane.client() as client:
        api = NodeApi(as_the_agent(client), NODE, "main", [VISION.namespace, SPEECH.namespace, "gone"])
        agent = Agent(cloud, api, ManualClock(NOW), lambda: {(VISION.namespace, pod["metadata"]["name"]): "3"})
        agent.round()
        assert installed.get(path).json()["metadata"]["annotations"]["gpufleet.io/devices-used"] == "3"
        cloud.says = (SPOT,)
        agent.round()
    found = installed.get(path).json()["metadata"]
    assert found["deletionGracePeriodSeconds"] == 28
    assert found["annotations"]["gpufleet.io/stop"] == "notice:spot"
    node = installed.get(f"/api/v1/nodes/{NODE}").json()
    assert "n-1" in node["metadata"]["annotations"]["gpufleet.io/notices"]
    assert "gpufleet.io/reclaiming" in [taint["key"] for taint in node["spec"]["taints"]]
    forget = {"metadata": {"finalizers": None}}
    installed.patch(path, json=forget, headers={"Content-Type": "application/merge-patch+json"}).raise_for_status()
    installed.delete(path, params={"gracePeriodSeconds": "0"})


def test_a_notice_that_is_taken_back_frees_the_node_again(installed: httpx.Client, control_plane: ControlPlane) -> None:
    taints = installed.get(f"/api/v1/nodes/{NODE}").json()["spec"]["taints"]
    others = [taint["key"] for taint in taints if taint["key"] != "gpufleet.io/reclaiming"]
    assert "nvidia.com/gpu" in others and len(others) < len(taints)
    with control_plane.client() as client:
        Agent(Cloud(), NodeApi(as_the_agent(client), NODE, "main", [VISION.namespace]), ManualClock(NOW)).round()
    node = installed.get(f"/api/v1/nodes/{NODE}").json()
    assert [taint["key"] for taint in node["spec"]["taints"]] == others, "those of others stay"
    assert node["metadata"]["annotations"]["gpufleet.io/notices"] == "[]"
