"""The real process: what pods are given, what is never passed on, who is let in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.sandboxes import WORLD, RunningSandbox, eventually, running_sandbox

from gpufleet.clusters.base import GangSpec, Phase, PodSeen, PodSpec
from gpufleet.errors import Invalid, Refused
from gpufleet.model.hardware import MigInstance, NodeState
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Container
from gpufleet.sandbox.__main__ import loopback

SECRETS = {"AIRFLOW__CORE__FERNET_KEY": "secret", "GPUFLEET_DATABASE_URL": "secret", "AWS_SECRET_ACCESS_KEY": "secret"}
WAITS = ("sh", "-c", "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
LAUNCH_SECONDS = 0.150
"""The budget for a gang of two."""
WORLD_WITH_NOTICE = {**WORLD, "notice": "1s"}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    with running_sandbox(tmp_path_factory.mktemp("home"), WORLD_WITH_NOTICE, env=SECRETS) as sandbox:
        yield sandbox


def gang(job: str, *places: PodPlace, command: tuple[str, ...] = WAITS, **env: str) -> GangSpec:
    container = Container(command, env=tuple(env.items()))
    pods = tuple(PodSpec(f"{job}-{rank}", rank, place, container) for rank, place in enumerate(places))
    return GangSpec(job, 1, "team-a", "ns-a", pods, timedelta(seconds=5))


def place(node: str, *gpus: int) -> PodPlace:
    return PodPlace(0, 0, node, gpus=gpus)


def pods_of(sandbox: RunningSandbox, job: str) -> list[PodSeen]:
    return [pod for pod in sandbox.cluster().observe().pods if pod.job == job]


def over(sandbox: RunningSandbox, job: str) -> list[PodSeen]:
    def look() -> list[PodSeen] | None:
        pods = pods_of(sandbox, job)
        return pods if pods and all(pod.phase.is_over for pod in pods) else None

    return eventually(look)


def ready(sandbox: RunningSandbox, job: str, rank: int = 0) -> None:
    eventually(lambda: "ready" in sandbox.cluster().logs(job, 1, rank))


@pytest.fixture(scope="module")
def environments(sandbox: RunningSandbox) -> list[dict[str, str]]:
    """What three pods saw: one with whole GPUs, one with a slice, one with a share."""
    tell = ("python", "-c", "import json, os, sys; print(json.dumps({**os.environ, 'EXE': sys.executable}))")
    places = (
        place("res-0", 0, 1),
        PodPlace(0, 1, "res-0", slices=(SliceOn(7, MigInstance(6, "1g.10gb")),)),
        PodPlace(0, 2, "res-0", shares=(ShareOn(3, 500, 20_000),)),
    )
    sandbox.cluster().launch(gang("env", *places, command=tell, OURS="yes", RANK="99"))
    assert [pod.phase for pod in over(sandbox, "env")] == [Phase.SUCCEEDED] * 3
    return [json.loads(sandbox.cluster().logs("env", 1, rank)) for rank in range(3)]


class TestEnvironment:
    def test_ranks_find_each_other(self, environments: list[dict[str, str]]) -> None:
        assert [env["RANK"] for env in environments] == ["0", "1", "2"]
        assert {env["WORLD_SIZE"] for env in environments} == {"3"}
        assert {env["MASTER_ADDR"] for env in environments} == {"127.0.0.1"}
        assert len({env["MASTER_PORT"] for env in environments}) == 1
        assert len({env["GPUFLEET_RENDEZVOUS_TOKEN"] for env in environments}) == 1

    def test_each_knows_its_own(self, environments: list[dict[str, str]]) -> None:
        assert [env["GPUFLEET_DEVICES"] for env in environments] == ["0,1", "MIG:7/1g.10gb@6", "SHARE:3/500"]
        for name in ("GPUFLEET_CONTROL_FILE", "GPUFLEET_DEVICE_MEMORY_FILE", "GPUFLEET_SERVE_PORT", "PWD"):
            assert len({env.get(name) for env in environments} - {None}) in (0, 3), name
        assert {env["GPUFLEET_NODE"] for env in environments} == {"res-0"}

    def test_nothing_else_is_passed_on(self, environments: list[dict[str, str]]) -> None:
        ours = {
            *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PATH", "HOME", "LANG", "PYTHONUNBUFFERED", "OURS"),
            *("GPUFLEET_RENDEZVOUS_TOKEN", "GPUFLEET_CONTROL_FILE", "GPUFLEET_DEVICES", "GPUFLEET_NODE"),
            *("GPUFLEET_SERVE_PORT", "GPUFLEET_DEVICE_MEMORY_FILE"),
        }
        # Python itself may add LC_CTYPE, and the test adds EXE.
        assert set(environments[0]) - {"LC_CTYPE", "EXE"} == ours

    def test_python_is_the_sandboxes_own(self, environments: list[dict[str, str]]) -> None:
        assert {env["EXE"] for env in environments} == {sys.executable}


def test_a_replica_is_reached_at_its_address(sandbox: RunningSandbox) -> None:
    serve = (
        "import os, http.server as h\n"
        "at = ('127.0.0.1', int(os.environ['GPUFLEET_SERVE_PORT']))\n"
        "h.HTTPServer(at, h.SimpleHTTPRequestHandler).serve_forever()\n"
    )
    sandbox.cluster().launch(gang("serve", place("res-0", 0), command=("python", "-c", serve)))
    (pod,) = pods_of(sandbox, "serve")

    def answers() -> bool:
        try:
            return httpx.get(f"http://{pod.address}/", trust_env=False).is_success
        except httpx.TransportError:
            return False

    eventually(answers)
    sandbox.cluster().stop("serve", 1, grace=timedelta(0))
    over(sandbox, "serve")


def test_a_gang_talks_over_its_master_port(sandbox: RunningSandbox) -> None:
    script = (
        "import os, socket, time\n"
        "at = ('127.0.0.1', int(os.environ['MASTER_PORT']))\n"
        "if os.environ['RANK'] == '0':\n"
        "    print(socket.create_server(at).accept()[0].recv(9).decode())\n"
        "else:\n"
        "    for _ in range(200):\n"
        "        try:\n"
        "            socket.create_connection(at).sendall(b'hello')\n"
        "            break\n"
        "        except OSError:\n"
        "            time.sleep(0.05)\n"
    )
    sandbox.cluster().launch(gang("talk", place("res-0", 0), place("spot-a1", 1), command=("python", "-c", script)))
    assert [pod.phase for pod in over(sandbox, "talk")] == [Phase.SUCCEEDED] * 2
    assert sandbox.cluster().logs("talk", 1, 0) == "hello\n"


def test_too_much_memory_kills_and_says_so(sandbox: RunningSandbox) -> None:
    greedy = ("sh", "-c", "trap '' TERM; echo 9985 > $GPUFLEET_DEVICE_MEMORY_FILE; while :; do sleep 0.05; done")
    sliced = PodPlace(0, 0, "res-0", slices=(SliceOn(7, MigInstance(6, "1g.10gb")),))
    sandbox.cluster().launch(gang("greedy", sliced, command=greedy))
    (pod,) = over(sandbox, "greedy")
    assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, 137, "memory")


def test_a_command_that_is_not_there_fails_the_gang(sandbox: RunningSandbox) -> None:
    sandbox.cluster().launch(gang("absent", place("res-0", 0), place("res-0", 1), command=("no-such-command",)))
    assert {(pod.phase, pod.reason) for pod in over(sandbox, "absent")} == {(Phase.FAILED, "start")}


def test_a_file_that_is_no_program_fails_the_gang(sandbox: RunningSandbox, tmp_path: Path) -> None:
    (tmp_path / "program").write_text("no program")
    (tmp_path / "program").chmod(0o700)
    wrong = gang("wrong", place("res-0", 0), place("res-0", 1), command=(str(tmp_path / "program"),))
    sandbox.cluster().launch(wrong)
    assert {(pod.phase, pod.reason) for pod in over(sandbox, "wrong")} == {(Phase.FAILED, "start")}


def test_a_refused_gang_starts_nothing(sandbox: RunningSandbox, tmp_path: Path) -> None:
    touch = ("touch", str(tmp_path / "started"))
    before = sandbox.cluster().observe().pods
    with pytest.raises(Refused, match="Node nowhere does not exist"):
        sandbox.cluster().launch(gang("refused", place("res-0", 0), place("nowhere", 0), command=touch))
    assert sandbox.cluster().observe().pods == before
    assert not (tmp_path / "started").exists()


def test_a_notice_reaches_the_pods_and_the_observer(sandbox: RunningSandbox) -> None:
    deaf = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    sandbox.cluster().launch(gang("saves", place("spot-a0", 0)))
    sandbox.cluster().launch(gang("deaf", place("spot-a0", 1), command=deaf))
    ready(sandbox, "saves")
    ready(sandbox, "deaf")
    told = sandbox.post("/v1/cloud/reclaim", node="spot-a0", then_unavailable=True)
    seen = sandbox.cluster().observe()
    (notice,) = seen.notices
    assert (notice.id, notice.node, notice.instance) == (told["id"], "spot-a0", "spot-a0")
    assert notice.deadline - notice.at == timedelta(seconds=1)
    assert {node.name: node.state for node in seen.nodes}["spot-a0"] is NodeState.RECLAIMING
    (saves,) = over(sandbox, "saves")
    assert (saves.phase, saves.exit_code, saves.reason) == (Phase.FAILED, 0, "evicted")
    (lost,) = over(sandbox, "deaf")
    assert (lost.phase, lost.exit_code, lost.reason) == (Phase.LOST, 137, "node-lost")
    assert "heard" in sandbox.cluster().logs("saves", 1, 0)
    eventually(lambda: "spot-a0" not in {node.name for node in sandbox.cluster().observe().nodes})
    assert [offering.available for offering in sandbox.cloud().offerings()] == [False]
    sandbox.post("/v1/cloud/availability", offering="spot-h100-a", available=4)


def test_the_ledger_is_moved_by_the_clock(sandbox: RunningSandbox) -> None:
    shows = sandbox.cluster().observe().cluster_time
    sandbox.post("/v1/clock", to=(shows + timedelta(days=2)).isoformat())
    assert sandbox.cluster().observe().cluster_time >= shows + timedelta(days=2)


def test_people_see_who_holds_what(sandbox: RunningSandbox) -> None:
    sandbox.cluster().launch(gang("seen", place("res-0", 5)))
    state = sandbox.get("/v1/state")
    assert state["held"]["res-0/5"] == ["seen: whole"]
    assert datetime.fromisoformat(state["cluster_time"]).tzinfo is not None
    sandbox.cluster().stop("seen", 1, grace=timedelta(0))
    over(sandbox, "seen")


def test_a_gang_of_two_is_launched_at_once(sandbox: RunningSandbox) -> None:
    """The best of four: others use the machine too."""
    cluster, seconds = sandbox.cluster(), []
    cluster.observe()
    for number in range(4):
        wanted = gang(f"quick-{number}", place("spot-a1", 2 * number), place("spot-a1", 2 * number + 1))
        before = time.perf_counter()
        cluster.launch(wanted)
        seconds.append(time.perf_counter() - before)
    assert min(seconds) < LAUNCH_SECONDS


class TestDoor:
    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer ä".encode()}])
    def test_without_the_token_nothing_is_said(self, sandbox: RunningSandbox, headers: Any) -> None:
        for path in ("/v1/observation", "/v1/state"):
            answer = httpx.get(f"{sandbox.door.url}{path}", headers=headers, trust_env=False)
            assert (answer.status_code, answer.json()["error"]) == (401, "forbidden")

    def test_it_is_on_loopback_and_its_owners_alone(self, sandbox: RunningSandbox) -> None:
        assert sandbox.door.url.startswith("http://127.0.0.1:")
        assert (sandbox.home / "sandbox.json").stat().st_mode & 0o777 == 0o600
        assert (sandbox.home / "sandbox").stat().st_mode & 0o777 == 0o700

    def test_what_cannot_be_read_is_told(self, sandbox: RunningSandbox) -> None:
        headers = {"Authorization": f"Bearer {sandbox.door.token}"}
        answer = httpx.post(f"{sandbox.door.url}/v1/gangs/stop", json={"job": "a"}, headers=headers, trust_env=False)
        assert answer.json() == {
            "error": "invalid",
            "message": "The request cannot be read: body.attempt: Field required; body.grace: Field required.",
        }

    def test_a_home_has_one_sandbox(self, sandbox: RunningSandbox) -> None:
        ended = start(sandbox.home, sandbox.world)
        assert (ended.returncode, "A sandbox runs on" in ended.stderr) == (2, True)

    @pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "localhost"])
    def test_it_listens_nowhere_else(self, host: str) -> None:
        with pytest.raises(Invalid, match=r"the sandbox listens on 127.0.0.1|listens on loopback only"):
            loopback(host)

    def test_another_address_is_told_to_be_wrong(self, tmp_path: Path, sandbox: RunningSandbox) -> None:
        ended = start(tmp_path, sandbox.world, "--host", "0.0.0.0")
        assert (ended.returncode, "listens on loopback only" in ended.stderr) == (2, True)

    def test_a_mistake_in_the_world_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "world.yaml").write_text(yaml.safe_dump({"version": 1, "nodez": []}))
        ended = start(tmp_path, tmp_path / "world.yaml")
        assert (ended.returncode, ended.stderr) == (2, f"{tmp_path}/world.yaml: unknown key 'nodez'.\n")


def start(home: Path, world: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpufleet.sandbox", "--home", home, "--world", world, *more],
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": os.environ["PATH"]},
    )
