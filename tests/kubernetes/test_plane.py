"""The control plane of the tests is a real one, starts by itself, and leaves nothing behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.planes import create, look, phase, pod, ready_nodes, unique, until
from tests.sandboxes import eventually
from tools.kubernetes.component import DidNotStart
from tools.kubernetes.nodes import GpuNode, is_ready, played_by_kwok
from tools.kubernetes.plane import ControlPlane, Options

FINALIZER = "gpufleet.io/observed"


def processes_of(home: Path) -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if any(str(home) in word for word in p.cmdline())]


@pytest.fixture
def eight(client: httpx.Client) -> Iterator[list[str]]:
    word = unique("node")
    with ready_nodes(client, [played_by_kwok(GpuNode(f"{word}-{i}").raw()) for i in range(8)]) as names:
        yield names


def test_it_says_the_version_that_go_mod_asks_for(client: httpx.Client) -> None:
    assert client.get("/version").json()["gitVersion"] == "v1.36.3"


def test_our_user_may_do_everything_and_is_throttled_like_any_other(client: httpx.Client) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    groups = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review).json()
    assert "system:masters" not in groups["status"]["userInfo"]["groups"]
    assert client.get("/api/v1/secrets").is_success


def test_pinned_pods_run_where_they_were_put_and_one_too_many_waits_with_a_reason(
    client: httpx.Client, place: str, eight: list[str]
) -> None:
    for node in eight:
        create(client, place, pod(f"on-{node}", node, gpus=8))
    for node in eight:
        running = until(client, place, f"on-{node}", phase("Running"))
        assert running["spec"]["nodeName"] == node
    create(client, place, pod("ninth", gpus=8))
    waiting = until(client, place, "ninth", lambda found: found["status"].get("conditions"))
    assert "8 Insufficient nvidia.com/gpu" in waiting["status"]["conditions"][0]["message"]


def test_a_deleted_pod_tells_its_end_and_goes_when_the_last_finalizer_does(
    client: httpx.Client, place: str, eight: list[str]
) -> None:
    kept = pod("kept", eight[0])
    kept["metadata"]["finalizers"] = [FINALIZER]
    create(client, place, kept)
    until(client, place, "kept", phase("Running"))
    client.delete(f"/api/v1/namespaces/{place}/pods/kept").raise_for_status()
    ended = until(client, place, "kept", phase("Failed"))
    assert ended["metadata"]["finalizers"] == [FINALIZER]
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    no_more = {"metadata": {"finalizers": None}}
    path, kind = f"/api/v1/namespaces/{place}/pods/kept", {"Content-Type": "application/merge-patch+json"}
    client.patch(path, json=no_more, headers=kind).raise_for_status()
    eventually(lambda: look(client, place, "kept") == {})


def test_kwok_leaves_the_nodes_of_others_alone(client: httpx.Client) -> None:
    theirs, ours = GpuNode(unique("theirs")).raw(), GpuNode(unique("ours")).raw()
    client.post("/api/v1/nodes", json=ours).raise_for_status()
    with ready_nodes(client, [played_by_kwok(theirs)]):
        assert not is_ready(client.get(f"/api/v1/nodes/{ours['metadata']['name']}").json())
    client.delete(f"/api/v1/nodes/{ours['metadata']['name']}").raise_for_status()


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_what_is_stored_survives_a_restart_and_a_power_cut(own_plane: ControlPlane, part: str) -> None:
    with own_plane.client() as client:
        client.post("/api/v1/namespaces", json={"metadata": {"name": "kept"}}).raise_for_status()
        own_plane.restart(part)
        eventually(lambda: _is_there(client))
        own_plane.parts[part].send(signal.SIGKILL)
        own_plane.parts[part].wait()
        assert not own_plane.parts[part].is_up
        own_plane.restart(part)
        eventually(lambda: _is_there(client))


def _is_there(client: httpx.Client) -> bool:
    try:
        return client.get("/api/v1/namespaces/kept").is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def own_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path, Options(kwok=False)) as plane:
        yield plane
    assert processes_of(tmp_path) == []


def test_two_at_once_do_not_meet_and_each_leaves_no_process(tmp_path: Path, own_plane: ControlPlane) -> None:
    with ControlPlane(tmp_path / "second") as second:
        assert len(processes_of(tmp_path / "second")) == 5
        with own_plane.client() as ours, second.client() as theirs:
            theirs.post("/api/v1/namespaces", json={"metadata": {"name": "theirs"}}).raise_for_status()
            assert ours.get("/api/v1/namespaces/theirs").status_code == httpx.codes.NOT_FOUND
    assert processes_of(tmp_path / "second") == []


def test_a_plane_in_the_folder_of_a_killed_one_goes_on_where_its_clients_find_it(tmp_path: Path) -> None:
    killed = ControlPlane(tmp_path, Options(kwok=False))
    killed.start()
    with killed.client() as client:
        client.post("/api/v1/namespaces", json={"metadata": {"name": "kept"}}).raise_for_status()
    left = processes_of(tmp_path)
    with ControlPlane(tmp_path, Options(kwok=False)) as plane, killed.client() as client:
        assert plane.url == killed.url
        assert client.get("/api/v1/namespaces/kept").is_success
        for part in killed.parts.values():
            part.wait()  # ended by the new plane: a zombie of ours until now
        assert not any(process.is_running() for process in left)
    assert processes_of(tmp_path) == []


def test_a_part_that_cannot_start_is_named_with_its_last_words_and_nothing_stays(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path, Options(api_server=("--no-such-flag",)))
    with pytest.raises(DidNotStart, match=r"kube-apiserver ended with 1(.|\n)*unknown flag: --no-such-flag"):
        plane.start()
    assert processes_of(tmp_path) == []
