"""The process kubelet does with a pod what a kubelet does: the real API server, real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.planes import create, look, phase, pod, ready_nodes, unique, until
from tests.sandboxes import eventually
from tools.kubernetes.kubelet import TAINT, Kubelet
from tools.kubernetes.nodes import GpuNode, is_ready, played_by_kwok
from tools.kubernetes.plane import ControlPlane, Options

TOLERATIONS = [{"key": TAINT["key"], "operator": "Exists"}]
FOREVER = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    home = tmp_path_factory.mktemp("kubelet")
    with control_plane.kubelet(home, [GpuNode("real").raw()]) as kubelet:
        yield kubelet
    assert _processes() == []
    with control_plane.client() as client:
        client.delete("/api/v1/nodes/real").raise_for_status()


def _processes() -> list[int]:
    """Pods of this test session, and their parents."""
    return [process.pid for process in psutil.Process().children(recursive=True) if _is_pod(process)]


def _is_pod(process: psutil.Process) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return "shim.py" in " ".join(process.cmdline()) or "GPUFLEET_TEST_POD" in process.environ()
    except psutil.NoSuchProcess:
        return False


def shell(name: str, script: str, node: str = "real", **spec: Any) -> dict[str, Any]:
    made = pod(name, node, command=["sh", "-c", script], tolerations=TOLERATIONS, **spec)
    made["spec"]["containers"][0].setdefault("env", []).append({"name": "GPUFLEET_TEST_POD", "value": "1"})
    return made


def terminated(found: dict[str, Any]) -> dict[str, Any]:
    ended: dict[str, Any] = found["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended


def logs(client: httpx.Client, place: str, name: str, **query: str) -> str:
    return client.get(f"/api/v1/namespaces/{place}/pods/{name}/log", params=query).text


def delete(client: httpx.Client, place: str, name: str, grace: int) -> None:
    client.request(
        "DELETE", f"/api/v1/namespaces/{place}/pods/{name}", json={"gracePeriodSeconds": grace}
    ).raise_for_status()


@pytest.fixture
def running(client: httpx.Client, place: str, kubelet: Kubelet) -> Any:
    """Starts a pod of this script and waits for its first word."""

    def start(script: str, name: str = "it", **more: Any) -> dict[str, Any]:
        made = shell(name, script)
        made["metadata"] |= more
        create(client, place, made)
        eventually(lambda: "ready" in logs(client, place, name))
        return until(client, place, name, phase("Running"))

    return start


class TestEnds:
    @pytest.mark.parametrize(
        ("script", "want", "code", "reason"),
        [
            ("exit 0", "Succeeded", 0, "Completed"),
            ("exit 85", "Failed", 85, "Error"),
            ("kill -9 $$$$", "Failed", 137, "Error"),
            ("no-such-command", "Failed", 127, "Error"),
        ],
    )
    def test_the_end_is_the_processes_own(
        self, client: httpx.Client, place: str, kubelet: Kubelet, script: str, want: str, code: int, reason: str
    ) -> None:
        create(client, place, shell("it", script))
        found = until(client, place, "it", phase("Succeeded", "Failed"))
        assert (found["status"]["phase"], terminated(found)["exitCode"]) == (want, code)
        assert terminated(found)["reason"] == reason
        assert terminated(found)["startedAt"] <= terminated(found)["finishedAt"]

    @pytest.mark.parametrize(
        ("change", "reason", "message"),
        [
            ({"command": ["no-such-command"]}, "StartError", "executable file not found"),
            ({"command": None}, "CreateContainerError", "no command is given"),
            ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a"}}}]},
             "CreateContainerConfigError", 'secret "none" not found'),
        ],
    )  # fmt: skip
    def test_what_cannot_start_fails_with_a_reason_and_others_go_on(
        self, client: httpx.Client, place: str, kubelet: Kubelet, change: dict[str, Any], reason: str, message: str
    ) -> None:
        odd = shell("odd", "exit 0")
        odd["spec"]["containers"][0] |= change
        create(client, place, odd)
        found = until(client, place, "odd", phase("Failed"))
        assert terminated(found)["reason"] == reason and message in terminated(found)["message"]
        create(client, place, shell("even", "exit 0"))
        until(client, place, "even", phase("Succeeded"))

    def test_an_image_that_cannot_be_pulled_waits_with_the_reason(
        self, client: httpx.Client, place: str, kubelet: Kubelet
    ) -> None:
        made = shell("it", "exit 0")
        made["spec"]["containers"][0]["image"] = "registry.invalid/team/train:1"
        create(client, place, made)
        found = until(client, place, "it", lambda found: found["status"].get("containerStatuses"))
        assert found["status"]["phase"] == "Pending"
        assert found["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
        delete(client, place, "it", 1)
        eventually(lambda: look(client, place, "it") == {})

    @pytest.mark.parametrize("verdict", ["OOMKilled", "Evicted"])
    def test_the_kubelets_own_verdicts(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any, verdict: str
    ) -> None:
        running(DEAF)
        kubelet.end_pod(place, "it", verdict)
        found = until(client, place, "it", phase("Failed"))
        said = found["status"].get("reason") if verdict == "Evicted" else terminated(found)["reason"]
        assert (said, terminated(found)["exitCode"]) == (verdict, 137)


class TestDeletion:
    def test_it_may_save_and_leave_and_is_seen_ended_before_it_goes(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(FOREVER, finalizers=["gpufleet.io/observed"])
        delete(client, place, "it", 30)
        found = until(client, place, "it", phase("Succeeded"))
        assert terminated(found)["exitCode"] == 0 and logs(client, place, "it").endswith("saved\n")
        eventually(lambda: look(client, place, "it")["metadata"]["deletionGracePeriodSeconds"] == 0)
        client.patch(
            f"/api/v1/namespaces/{place}/pods/it", json={"metadata": {"finalizers": None}}, headers=MERGE
        ).raise_for_status()
        eventually(lambda: look(client, place, "it") == {})

    def test_one_that_does_not_hear_is_killed_after_the_grace(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(DEAF, finalizers=["gpufleet.io/observed"])
        began = time.monotonic()
        delete(client, place, "it", 3)
        found = until(client, place, "it", phase("Failed"))
        assert 3 <= time.monotonic() - began < 6 and terminated(found)["exitCode"] == 137
        client.patch(
            f"/api/v1/namespaces/{place}/pods/it", json={"metadata": {"finalizers": None}}, headers=MERGE
        ).raise_for_status()

    def test_a_second_deletion_may_shorten_the_grace(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(DEAF)
        delete(client, place, "it", 600)
        delete(client, place, "it", 1)
        eventually(lambda: look(client, place, "it") == {}, within=10)

    def test_by_force_the_object_goes_first_and_the_process_follows(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(DEAF)
        delete(client, place, "it", 0)
        assert look(client, place, "it") == {}
        eventually(lambda: _processes() == [])

    def test_an_eviction_is_a_deletion(self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any) -> None:
        running(FOREVER)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "it", "namespace": place}}
        client.post(f"/api/v1/namespaces/{place}/pods/it/eviction", json=eviction).raise_for_status()
        eventually(lambda: look(client, place, "it") == {})
        eventually(lambda: _processes() == [])


class TestWhatAPodSees:
    def test_its_environment_in_order_with_references_fields_secrets_and_settings(
        self, client: httpx.Client, place: str, kubelet: Kubelet
    ) -> None:
        path = f"/api/v1/namespaces/{place}"
        client.post(f"{path}/secrets", json={"metadata": {"name": "key"}, "stringData": {"S": "from-secret"}})
        client.post(f"{path}/configmaps", json={"metadata": {"name": "set"}, "data": {"C": "from-map"}})
        made = shell("it", "echo $NAME $BOTH $LITERAL $S $ONE $C ${MISSING:-none}")
        made["metadata"]["labels"] = {"rank": "3"}
        container = made["spec"]["containers"][0]
        container["envFrom"] = [
            {"secretRef": {"name": "key"}}, {"secretRef": {"name": "absent", "optional": True}},
            {"configMapRef": {"name": "set"}},
        ]  # fmt: skip
        container["env"] += [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['rank']"}}},
            {"name": "BOTH", "value": "$(NAME)-$(RANK)"},
            {"name": "LITERAL", "value": "$$(NAME)"},
            {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "key", "key": "S"}}},
        ]
        create(client, place, made)
        until(client, place, "it", phase("Succeeded"))
        assert logs(client, place, "it") == "it it-3 $(NAME) from-secret from-secret from-map none\n"

    def test_an_annotation_as_a_file_that_follows_it(self, client: httpx.Client, place: str, kubelet: Kubelet) -> None:
        script = 'echo ready; until [ "$(cat $CONTROL)" = 7 ]; do sleep 0.02; done; echo asked'
        made = shell("it", script)
        made["spec"]["volumes"] = [{"name": "control", "downwardAPI": {"items": [
            {"path": "save", "fieldRef": {"fieldPath": "metadata.annotations['gpufleet.io/save-request']"}}]}}]  # fmt: skip
        container = made["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "control", "mountPath": "/etc/gpufleet"}]
        container["env"].append({"name": "CONTROL", "value": "/etc/gpufleet/save"})
        create(client, place, made)
        eventually(lambda: logs(client, place, "it") == "ready\n")
        asked = {"metadata": {"annotations": {"gpufleet.io/save-request": "7"}}}
        client.patch(f"/api/v1/namespaces/{place}/pods/it", json=asked, headers=MERGE).raise_for_status()
        until(client, place, "it", phase("Succeeded"))

    def test_the_others_of_its_gang_by_their_dns_names(
        self, client: httpx.Client, place: str, kubelet: Kubelet
    ) -> None:
        listen = (
            "import os, socket; s = socket.create_server((os.environ['MASTER'], 23456)); "
            "c, _ = s.accept(); print(c.recv(9).decode())"
        )
        call = (
            "import os, socket, time\nwhile True:\n"
            "    try: s = socket.create_connection((os.environ['MASTER'], 23456)); break\n"
            "    except OSError: time.sleep(0.05)\ns.sendall(b'hello')"
        )
        for name, script in (("first", listen), ("second", call)):
            made = pod(name, "real", command=["python", "-c", script], tolerations=TOLERATIONS)
            made["spec"] |= {"hostname": name, "subdomain": "gang"}
            made["spec"]["containers"][0]["env"] = [{"name": "MASTER", "value": f"first.gang.{place}.svc"}]
            create(client, place, made)
        first = until(client, place, "first", phase("Succeeded"))
        assert logs(client, place, "first") == "hello\n"
        second = until(client, place, "second", phase("Succeeded"))
        assert first["status"]["podIP"] != second["status"]["podIP"]


class TestLogs:
    def test_the_last_lines_through_the_api_server(self, client: httpx.Client, place: str, kubelet: Kubelet) -> None:
        create(client, place, shell("it", "echo one; echo two; echo three >&2"))
        until(client, place, "it", phase("Succeeded"))
        assert logs(client, place, "it") == "one\ntwo\nthree\n"
        assert logs(client, place, "it", tailLines="2") == "two\nthree\n"
        assert logs(client, place, "it", limitBytes="5") == "one\nt"

    def test_nobody_without_a_certificate_reads_them(self, client: httpx.Client, kubelet: Kubelet) -> None:
        node = client.get("/api/v1/nodes/real").json()
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://127.0.0.1:{port}/containerLogs/a/b/main", verify=False, trust_env=False)


class TestNodes:
    def test_an_unpinned_pod_does_not_land_here(self, client: httpx.Client, place: str, kubelet: Kubelet) -> None:
        with ready_nodes(client, [played_by_kwok(GpuNode(unique("pretended")).raw())]) as names:
            create(client, place, pod("stray"))
            assert until(client, place, "stray", phase("Running"))["spec"]["nodeName"] in names

    def test_a_node_cut_off_is_lost_and_comes_back_with_its_processes(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(DEAF)
        kubelet.silence("real")
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        status = {"status": {"conditions": [condition]}}  # as the node controller says it after 50 s
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        client.patch("/api/v1/nodes/real/status", json=status, headers=kind).raise_for_status()
        delete(client, place, "it", 1)
        time.sleep(3)
        assert look(client, place, "it")["status"]["phase"] == "Running" and len(_processes()) >= 2
        kubelet.reconnect("real")
        eventually(lambda: look(client, place, "it") == {})
        eventually(lambda: is_ready(client.get("/api/v1/nodes/real").json()))

    def test_a_node_switched_off_takes_its_processes_along(
        self, client: httpx.Client, place: str, kubelet: Kubelet, running: Any
    ) -> None:
        running(DEAF)
        kubelet.switch_off("real")
        eventually(lambda: _processes() == [])
        assert look(client, place, "it")["status"]["phase"] == "Running"
        kubelet.reconnect("real")
        assert terminated(until(client, place, "it", phase("Failed")))["exitCode"] == 137

    def test_nodes_come_and_go(self, client: httpx.Client, place: str, kubelet: Kubelet) -> None:
        kubelet.add(GpuNode("guest").raw())
        create(client, place, shell("it", DEAF, "guest"))
        until(client, place, "it", phase("Running"))
        kubelet.remove("guest")
        assert client.get("/api/v1/nodes/guest").status_code == httpx.codes.NOT_FOUND
        eventually(lambda: _processes() == [])


class TestLostApiServer:
    def test_what_runs_goes_on_and_its_end_is_told_when_the_server_is_back(self, tmp_path: Path) -> None:
        with (
            ControlPlane(tmp_path / "plane", Options(kwok=False)) as plane,
            plane.kubelet(tmp_path / "nodes", [GpuNode("real").raw()], lambda _: None),
            plane.client() as client,
        ):
            go = tmp_path / "go"
            create(client, "default", shell("it", f"echo ready; until [ -e {go} ]; do sleep 0.02; done; exit 85"))
            until(client, "default", "it", phase("Running"))
            plane.parts["kube-apiserver"].send(signal.SIGKILL)
            plane.parts["kube-apiserver"].wait()
            before = _processes()
            go.touch()
            eventually(lambda: len(_processes()) < len(before))
            plane.restart("kube-apiserver")
            with plane.client() as again:
                assert terminated(until(again, "default", "it", phase("Failed")))["exitCode"] == 85
                create(again, "default", shell("next", "exit 0"))
                until(again, "default", "next", phase("Succeeded"))


class TestKilledAgent:
    """A kubelet of its own process, killed like a machine's agent may be."""

    def test_its_successor_goes_on_with_what_it_finds_and_declares_lost_what_it_does_not(
        self, control_plane: ControlPlane, client: httpx.Client, place: str, tmp_path: Path
    ) -> None:
        first = self._another(control_plane, tmp_path)
        eventually(lambda: client.get("/api/v1/nodes/second").is_success)
        create(client, place, shell("found", FOREVER, "second"))
        create(client, place, shell("lost", FOREVER, "second"))
        uids = {name: until(client, place, name, phase("Running"))["metadata"]["uid"] for name in ("found", "lost")}
        first.kill()
        first.wait()
        lost = tmp_path / "pods" / uids["lost"]
        pid, _, _ = (lost / "home" / "started").read_text().split()
        lost.rename(tmp_path / "no-longer-here")
        with control_plane.kubelet(tmp_path, [GpuNode("second").raw()]):
            ended = terminated(until(client, place, "lost", phase("Failed")))
            assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)
            assert logs(client, place, "found") == "ready\n"
            delete(client, place, "found", 30)
            eventually(lambda: look(client, place, "found") == {})
        os.kill(int(pid), signal.SIGKILL)
        client.delete("/api/v1/nodes/second").raise_for_status()

    @staticmethod
    def _another(plane: ControlPlane, home: Path) -> subprocess.Popen[bytes]:
        access = plane.root_access
        code = (
            "import signal, sys; from pathlib import Path; from tools.kubernetes.access import Access;"
            "from tools.kubernetes.certificates import Pair; from tools.kubernetes.kubelet import Kubelet;"
            "from tools.kubernetes.nodes import GpuNode; url, ca, crt, key, home = sys.argv[1:];"
            "pair = Pair(Path(crt), Path(key));"
            "Kubelet(Access(url, Path(ca), pair), pair, Path(home), [GpuNode('second').raw()]).start(); signal.pause()"
        )
        words = (access.url, access.authority, access.pair.certificate, access.pair.key, home)
        return subprocess.Popen([sys.executable, "-c", code, *map(str, words)])
