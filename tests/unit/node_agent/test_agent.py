"""What the agent does about a notice: the pods first, then the node, and again what did not succeed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from tests.builders import NOW
from tests.unit.node_agent.worlds import Cluster, kubelet, served

from gpufleet.clock import ManualClock
from gpufleet.errors import Invalid
from gpufleet.node_agent.__main__ import cloud_from
from gpufleet.node_agent.agent import Agent, grace_until
from gpufleet.node_agent.cluster import NodeApi
from gpufleet.node_agent.devices import Card, given, inventory, read_back, told
from gpufleet.node_agent.notices import Kind, Notice

SECOND = timedelta(seconds=1)
SPOT = Notice("n-1", Kind.SPOT, NOW, NOW + 30 * SECOND)
RISK = Notice("n-2", Kind.RISK, NOW)
LATER = Notice("n-3", Kind.MAINTENANCE, NOW, NOW + timedelta(hours=1))


@dataclass
class Cloud:
    """Says what it is told to say."""

    says: tuple[Notice, ...] = ()
    asked: int = field(default=0)

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        self.asked += 1
        return self.says


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with served(Cluster()) as found:
        yield found


def agent(cluster: Cluster, cloud: Cloud, clock: ManualClock | None = None, **more: object) -> Agent:
    api = NodeApi(httpx.Client(base_url=cluster.url), "n0", "main", ["gpufleet-vision", "gpufleet-speech"])
    return Agent(cloud, api, clock or ManualClock(NOW), **more)  # type: ignore[arg-type]  # what Agent takes


def test_at_a_notice_every_pod_of_ours_is_ended_first_and_then_the_node_is_told(cluster: Cluster) -> None:
    cluster.add("a"), cluster.add("b", "gpufleet-speech")
    agent(cluster, Cloud((SPOT,))).round()
    assert sorted(cluster.done("DELETE")) == ["a", "b"]
    assert cluster.asked[-1][1] == "/api/v1/nodes/n0", "the node is told last"
    assert cluster.pods["a"]["metadata"]["annotations"] == {"gpufleet.io/stop": "notice:spot"}
    options = next(body for verb, _, body in cluster.asked if verb == "DELETE")
    assert options["gracePeriodSeconds"] == 28, "two seconds before the machine goes"
    assert options["preconditions"]["uid"].startswith("uid-")
    assert cluster.taints() == ["nvidia.com/gpu", "gpufleet.io/reclaiming"], "the taints of others stay"
    (said,) = json.loads(cluster.node["metadata"]["annotations"]["gpufleet.io/notices"])
    assert said == {"id": "n-1", "kind": "spot", "at": NOW.isoformat(), "deadline": (NOW + 30 * SECOND).isoformat()}


def test_the_why_is_told_before_the_pod_is_ended(cluster: Cluster) -> None:
    cluster.add("a")
    agent(cluster, Cloud((SPOT,))).round()
    assert [verb for verb, path, _ in cluster.asked if path.endswith("/a")] == ["PATCH", "DELETE"]


def test_pods_of_others_of_another_fleet_and_ended_ones_are_left_alone(cluster: Cluster) -> None:
    cluster.add("other", fleet="theirs"), cluster.add("over", phase="Succeeded"), cluster.add("x", "kube-system")
    agent(cluster, Cloud((SPOT,))).round()
    assert cluster.done("DELETE") == []


def test_a_notice_that_stays_is_answered_once_but_a_pod_that_comes_later_is_ended_too(cluster: Cluster) -> None:
    cluster.add("a")
    found, clock = Cloud((SPOT,)), ManualClock(NOW)
    one = agent(cluster, found, clock)
    for _ in range(3):
        one.round()
        clock.advance(SECOND)
    assert (cluster.done("DELETE"), cluster.done("PATCH").count("n0")) == (["a"], 1)
    cluster.add("late")
    one.round()
    assert cluster.done("DELETE") == ["a", "late"]


def test_what_did_not_succeed_is_tried_again(cluster: Cluster) -> None:
    cluster.add("a")
    one = agent(cluster, Cloud((SPOT,)))
    cluster.broken = True
    one.round()
    cluster.broken = False
    one.round()
    assert cluster.pods["a"]["metadata"]["deletionTimestamp"]
    assert "n-1" in cluster.node["metadata"]["annotations"]["gpufleet.io/notices"]


@pytest.mark.parametrize("notice", [RISK, LATER], ids=lambda notice: notice.kind)
def test_with_time_left_pods_are_asked_to_save_once_and_go_on(cluster: Cluster, notice: Notice) -> None:
    cluster.add("a")
    cluster.pods["a"]["metadata"]["annotations"] = {"gpufleet.io/save-request": "4"}
    one = agent(cluster, Cloud((notice,)))
    one.round(), one.round()
    assert cluster.pods["a"]["metadata"]["annotations"]["gpufleet.io/save-request"] == "5"
    assert cluster.done("DELETE") == []
    assert cluster.taints() == ["nvidia.com/gpu"]


def test_maintenance_that_comes_near_ends_the_pods(cluster: Cluster) -> None:
    cluster.add("a")
    clock = ManualClock(NOW)
    one = agent(cluster, Cloud((LATER,)), clock)
    one.round()
    clock.advance(timedelta(minutes=56))
    one.round()
    assert cluster.done("DELETE") == ["a"]


def test_a_notice_is_told_as_it_was_heard_first_and_one_that_is_over_is_taken_back(cluster: Cluster) -> None:
    cloud, clock = Cloud((SPOT,)), ManualClock(NOW)
    one = agent(cluster, cloud, clock)
    one.round()
    cloud.says = (Notice(SPOT.id, SPOT.kind, NOW + SECOND, NOW + 31 * SECOND),)
    one.round()
    assert cluster.done("PATCH") == ["n0"]
    cloud.says = ()
    one.round()
    assert cluster.node["metadata"]["annotations"]["gpufleet.io/notices"] == "[]"
    assert cluster.taints() == ["nvidia.com/gpu"]


def test_a_quiet_cloud_costs_the_api_one_write_in_all(cluster: Cluster) -> None:
    cluster.add("a")
    one = agent(cluster, Cloud())
    for _ in range(5):
        one.round()
    assert [verb for verb, _, _ in cluster.asked] == ["PATCH"]


@pytest.mark.parametrize(("left", "want"), [(30, 28), (120, 118), (1, 1), (-5, 1), (7200, 600)])
def test_the_grace_ends_before_the_machine_does_and_is_never_none(left: int, want: int) -> None:
    assert grace_until(NOW + left * SECOND, NOW) == want


# ------------------------------------------------------------------ devices

LISTING = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)
  MIG 1g.10gb     Device  0: (UUID: MIG-cc)
  MIG 3g.40gb     Device  1: (UUID: MIG-dd)
"""


def test_the_listing_of_gpus_is_read_with_the_slices_below_them() -> None:
    assert inventory(LISTING) == {
        "GPU-aa": Card(0),
        "GPU-bb": Card(1),
        "MIG-cc": Card(1, "1g.10gb"),
        "MIG-dd": Card(1, "3g.40gb"),
    }
    assert inventory("No devices were found") == {}


def test_devices_are_told_as_our_own_annotation_tells_them() -> None:
    cards = inventory(LISTING)
    assert told(["GPU-bb", "GPU-aa"], cards) == "0,1"
    assert told(["MIG-cc"], cards) == "MIG:1/1g.10gb"
    assert told(["GPU-aa::3", "GPU-aa::7"], cards) == "0", "replicas of one shared GPU"
    assert told(["GPU-zz"], cards) == ""


def test_the_kubelet_is_asked_which_pod_has_which_device_and_the_pod_is_told(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add("a")
    listing = tmp_path / "listing"
    listing.write_text(LISTING)
    pods = {
        ("gpufleet-vision", "a"): {"nvidia.com/mig-1g.10gb": ("MIG-cc",), "other.com/nic": ("x",)},
        ("kube-system", "b"): {"nvidia.com/gpu": ("GPU-aa",)},
    }
    clock = ManualClock(NOW)
    with kubelet(tmp_path / "kubelet.sock", pods) as socket:
        assert given(socket)["kube-system", "b"] == ("GPU-aa",)
        one = agent(cluster, Cloud(), clock, devices=lambda: read_back(socket, ("cat", str(listing))))
        for _ in range(3):
            one.round()
            clock.advance(11 * SECOND)
    assert cluster.pods["a"]["metadata"]["annotations"]["gpufleet.io/devices-used"] == "MIG:1/1g.10gb"
    assert cluster.done("PATCH").count("a") == 1, "only when it changes"


def test_a_kubelet_that_does_not_answer_keeps_no_notice_from_being_heard(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add("a")
    with pytest.raises(OSError, match="pod-resources socket does not answer: UNAVAILABLE"):
        given(f"unix://{tmp_path / 'nobody.sock'}")
    agent(cluster, Cloud((SPOT,)), devices=lambda: read_back(f"unix://{tmp_path / 'nobody.sock'}")).round()
    assert cluster.done("DELETE") == ["a"]


def test_a_machine_without_nvidia_smi_is_told_in_a_sentence(tmp_path: Path) -> None:
    pods = {("a", "b"): {"nvidia.com/gpu": ("GPU-aa",)}}
    with (
        kubelet(tmp_path / "kubelet.sock", pods) as socket,
        pytest.raises(OSError, match="no-such-command does not list the GPUs"),
    ):
        read_back(socket, ("no-such-command",))


# ------------------------------------------------------------------ the program


def test_only_the_three_clouds_are_known() -> None:
    assert cloud_from({}) is None
    for name in ("aws", "gcp", "azure"):
        assert type(cloud_from({"GPUFLEET_CLOUD": name})).__name__.lower() == name
    with pytest.raises(Invalid, match="GPUFLEET_CLOUD is 'moon'"):
        cloud_from({"GPUFLEET_CLOUD": "moon"})


def test_it_says_what_is_missing_in_its_environment() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "gpufleet.node_agent"], env=_environment(), capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (2, "gpufleet node agent: GPUFLEET_FLEET is not set.\n")


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}


def test_the_loop_ends_when_it_is_told_to(cluster: Cluster) -> None:
    program = (
        "import httpx, signal, threading\n"
        "from gpufleet.clock import SystemClock\n"
        "from gpufleet.node_agent.__main__ import run\n"
        "from gpufleet.node_agent.agent import Agent\n"
        "from gpufleet.node_agent.cluster import NodeApi\n"
        "stopped = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *_: stopped.set())\n"
        f"api = NodeApi(httpx.Client(base_url='{cluster.url}'), 'n0', 'main', ['a'])\n"
        "print('ready', flush=True)\n"
        "run(Agent(None, api, SystemClock()), stopped, 30.0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=_environment(), text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
