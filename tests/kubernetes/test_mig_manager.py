"""A node gets another MIG layout through the real API; a small program plays NVIDIA's MIG manager and device plugin."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.builders import instance
from tests.kubernetes.test_rendered_objects import apply
from tests.planes import create, pod, ready_nodes, unique
from tests.sandboxes import eventually
from tools.kubernetes.nodes import GpuNode, played_by_kwok
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.mig import machine
from gpufleet.errors import Refused, Temporary

MERGE = {"Content-Type": "application/merge-patch+json"}
CONFIG_MAP = "/api/v1/namespaces/gpu-operator/configmaps/gpufleet-mig-parted-config"
HALVES = (instance("3g.40gb@0"), instance("3g.40gb@4"))


class Manager:
    """Follows the label as the MIG manager does: pending with no GPU on offer, then what the file says, or `failed`."""

    def __init__(self, client: httpx.Client, node: str, *, works: bool = True) -> None:
        self._client, self._path, self._works = client, f"/api/v1/nodes/{node}", works
        self._done = ""
        self.stopped = threading.Event()

    def follow(self) -> None:
        while not self.stopped.wait(0.1):
            wanted = self._labels().get("nvidia.com/mig.config", "")
            if wanted.startswith("gpufleet-") and wanted != self._done:
                self._change(wanted)
                self._done = wanted

    def _change(self, wanted: str) -> None:
        self._label("pending")
        self._offer({name: "0" for name in self._offered()})
        time.sleep(0.5)
        if self._works:
            self._offer(self._resources(wanted))
        self._label("success" if self._works else "failed")

    def _resources(self, wanted: str) -> dict[str, str]:
        """Counts of what mig-parted would make of the file's entries for this layout."""
        content = json.loads(self._client.get(CONFIG_MAP).json()["data"]["config.yaml"])
        counts = {name: 0 for name in self._offered()} | {"nvidia.com/gpu": 0}
        for entry in content["mig-configs"][wanted]:
            for profile, count in entry.get("mig-devices", {}).items():
                name = f"nvidia.com/mig-{profile}"
                counts[name] = counts.get(name, 0) + count * len(entry["devices"])
            if not entry["mig-enabled"]:
                counts["nvidia.com/gpu"] += len(entry["devices"])
        return {name: str(count) for name, count in counts.items()}

    def _offered(self) -> list[str]:
        told = self._client.get(self._path).json()["status"]["allocatable"]
        return [name for name in told if name.startswith("nvidia.com/")]

    def _labels(self) -> dict[str, str]:
        found: dict[str, str] = self._client.get(self._path).json()["metadata"].get("labels", {})
        return found

    def _label(self, state: str) -> None:
        body = {"metadata": {"labels": {"nvidia.com/mig.config.state": state}}}
        self._client.patch(self._path, json=body, headers=MERGE).raise_for_status()

    def _offer(self, resources: dict[str, str]) -> None:
        body = {"status": {"allocatable": resources, "capacity": resources}}
        self._client.patch(f"{self._path}/status", json=body, headers=MERGE).raise_for_status()


@contextmanager
def managed(client: httpx.Client, node: str, *, works: bool = True) -> Iterator[None]:
    manager = Manager(client, node, works=works)
    thread = threading.Thread(target=manager.follow)
    thread.start()
    try:
        yield
    finally:
        manager.stopped.set()
        thread.join()


@pytest.fixture
def node(client: httpx.Client) -> Iterator[str]:
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    client.delete(CONFIG_MAP)
    with ready_nodes(client, [played_by_kwok(GpuNode(unique("mig"), gpus=2).raw())]) as (name,):
        yield name


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path) -> Iterator[KubernetesCluster]:
    file = str(control_plane.kubeconfig)
    found = KubernetesCluster("main", "test", lambda: access_from(file), tmp_path, seeing=SeeingConfig(remake_mig=True))
    yield found
    found.close()


def until_done(act: Callable[[], None]) -> int:
    """Ask again while it is Temporary, as the executor of operations does; how often it was asked."""
    until, asked = time.monotonic() + 30, 0
    while True:
        asked += 1
        try:
            act()
            return asked
        except Temporary:
            assert time.monotonic() < until
            time.sleep(0.2)


def look(client: httpx.Client, node: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/v1/nodes/{node}").raise_for_status().json()
    return found


def remake(cluster: KubernetesCluster, node: str, gpu: int = 0) -> None:
    cluster.repartition(node, gpu, destroy=(), create=HALVES)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The half minute in which an old word may still stand there, shortened: the manager here answers at once."""
    monkeypatch.setattr(machine, "SETTLE", machine.SETTLE / 15)


def test_a_free_gpu_is_cut_and_the_node_serves_again(
    client: httpx.Client, cluster: KubernetesCluster, node: str
) -> None:
    with managed(client, node):
        assert until_done(lambda: remake(cluster, node)) > 1
    found = look(client, node)
    assert found["status"]["allocatable"]["nvidia.com/mig-3g.40gb"] == "2"
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert "unschedulable" not in found["spec"]
    assert "gpufleet.io/mig-change" not in found["metadata"]["annotations"]
    assert found["metadata"]["annotations"]["gpufleet.io/mig-layout"] == "0:3g.40gb@0 0:3g.40gb@4"
    seen = eventually(lambda: _cut(cluster, node))
    assert seen == HALVES
    remake(cluster, node)  # done already is done, and at once


def _cut(cluster: KubernetesCluster, node: str) -> tuple[Any, ...]:
    (found,) = (n for n in cluster.observe().nodes if n.name == node)
    return found.devices[0].instances


def test_two_gpus_asked_for_at_once_are_cut_one_after_the_other(
    client: httpx.Client, cluster: KubernetesCluster, node: str
) -> None:
    with managed(client, node):
        threads = [
            threading.Thread(target=until_done, args=(lambda g=gpu: remake(cluster, node, g),)) for gpu in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert look(client, node)["status"]["allocatable"]["nvidia.com/mig-3g.40gb"] == "4"
    assert "unschedulable" not in look(client, node)["spec"]


def test_a_gpu_that_somebody_has_is_refused_and_the_node_is_opened_again(
    client: httpx.Client, cluster: KubernetesCluster, node: str, place: str
) -> None:
    create(client, place, pod("foreign", node, gpus=1))
    eventually(
        lambda: client.get(f"/api/v1/namespaces/{place}/pods/foreign").json()["status"].get("phase") == "Running"
    )
    with managed(client, node), pytest.raises(Refused, match=f"held by {place}/foreign"):
        until_done(lambda: remake(cluster, node))
    found = look(client, node)
    assert "unschedulable" not in found["spec"] and "nvidia.com/mig.config" not in found["metadata"]["labels"]


def test_a_manager_that_fails_leaves_the_node_cordoned_for_a_person(
    client: httpx.Client, cluster: KubernetesCluster, node: str
) -> None:
    with managed(client, node, works=False), pytest.raises(Refused, match="the MIG manager failed on node"):
        until_done(lambda: remake(cluster, node))
    assert look(client, node)["spec"]["unschedulable"] is True


def test_a_cluster_that_may_not_remake_refuses_at_once(
    client: httpx.Client, control_plane: ControlPlane, node: str, tmp_path: Path
) -> None:
    file = str(control_plane.kubeconfig)
    careful = KubernetesCluster("main", "test", lambda: access_from(file), tmp_path)
    with pytest.raises(Refused, match="is never remade"):
        remake(careful, node)
    careful.close()
    assert "unschedulable" not in look(client, node)["spec"]
