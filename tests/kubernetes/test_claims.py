"""DRA on the real scheduler: the device that was planned is the device that is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.builders import node, on
from tests.gangs import gang, rendered
from tests.kubernetes.test_rendered_objects import apply, folder
from tests.planes import ready_nodes
from tests.sandboxes import eventually
from tools.kubernetes.nodes import GpuNode, played_by_kwok

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes

NODE = "claims-node"
CONFIG = PodConfig(image="registry.example/job:1", service_account="default")
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def device(name: str, **attributes: Any) -> dict[str, Any]:
    told = {k: {"int" if isinstance(v, int) else "string": v} for k, v in attributes.items()}
    return {"name": name, "attributes": told}


DEVICES = [
    *(device(f"gpu-{n}", type="gpu", minor=n) for n in range(3)),
    *(
        device(f"gpu-3-mig-1g-10gb-{start}", type="mig", parentMinor=3, profile="1g.10gb", placementStart=start)
        for start in range(7)
    ),
]


@pytest.fixture
def devices(client: httpx.Client) -> Iterator[None]:
    """A node whose driver publishes three whole GPUs and one that is cut."""
    for one in priority_classes("main"):
        apply(client, one)
    for kind in ("gpu", "mig"):
        select = f'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "{kind}"'
        spec = {"selectors": [{"cel": {"expression": select}}]}
        client.post(CLASSES, json={"metadata": {"name": f"{kind}.nvidia.com"}, "spec": spec}).raise_for_status()
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": pool, "devices": DEVICES}
    with ready_nodes(client, [played_by_kwok(GpuNode(NODE, gpus=0).raw())]):
        made = client.post(SLICES, json={"metadata": {"name": "claims-slice"}, "spec": spec})
        assert made.is_success, made.text
        yield
    client.delete(f"{SLICES}/claims-slice")
    for kind in ("gpu", "mig"):
        client.delete(f"{CLASSES}/{kind}.nvidia.com")


def given(client: httpx.Client, path: str) -> list[str]:
    """Names of the devices that a claim was given."""
    status = client.get(path).json().get("status", {})
    return [found["device"] for found in status.get("allocation", {}).get("devices", {}).get("results", [])]


def test_each_pod_is_given_the_very_devices_that_were_planned(client: httpx.Client, place: str, devices: None) -> None:
    exact = node(NODE)
    wanted = {
        "whole": (on(NODE, 2, 0), ["gpu-0", "gpu-2"]),
        "slice": (on(NODE, slices=["3:1g.10gb@5"]), ["gpu-3-mig-1g-10gb-5"]),
        "other": (on(NODE, slices=["3:1g.10gb@2", "3:1g.10gb@0"]), ["gpu-3-mig-1g-10gb-0", "gpu-3-mig-1g-10gb-2"]),
    }
    for job, (where, names) in wanted.items():
        found = rendered(gang(where, job=job, namespace=place), exact, config=CONFIG)
        for one in (*found.claims, *found.pods):
            answer = client.post(folder(one), params={"fieldValidation": "Strict"}, json=one)
            assert answer.is_success, answer.text
        claim = f"{folder(found.claims[0])}/{found.claims[0]['metadata']['name']}"
        assert sorted(eventually(lambda claim=claim: given(client, claim))) == names
    _forget(client, place)


def test_a_device_that_is_taken_is_given_to_nobody_else(client: httpx.Client, place: str, devices: None) -> None:
    exact = node(NODE)
    for job in ("first", "second"):
        found = rendered(gang(on(NODE, 1), job=job, namespace=place), exact, config=CONFIG)
        for one in (*found.claims, *found.pods):
            client.post(folder(one), json=one).raise_for_status()
        if job == "first":
            path = f"{folder(found.claims[0])}/{found.claims[0]['metadata']['name']}"
            assert eventually(lambda path=path: given(client, path)) == ["gpu-1"]
    pod = f"/api/v1/namespaces/{place}/pods/second-2-0"
    message = eventually(lambda: _why(client.get(pod).json()))
    assert "cannot allocate all claims" in message
    assert given(client, f"/apis/resource.k8s.io/v1/namespaces/{place}/resourceclaims/second-2-0") == []
    _forget(client, place)


def _why(pod: dict[str, Any]) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


def _forget(client: httpx.Client, place: str) -> None:
    """Pods of ours stay until their end was seen; nobody looks here."""
    for pod in client.get(f"/api/v1/namespaces/{place}/pods").json()["items"]:
        path = f"/api/v1/namespaces/{place}/pods/{pod['metadata']['name']}"
        client.patch(
            path, json={"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"}
        )
        client.delete(path, params={"gracePeriodSeconds": "0"})
