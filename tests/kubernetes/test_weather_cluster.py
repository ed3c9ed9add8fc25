"""A cluster behind an API that misbehaves: every effect happens once, every change is seen, the words are kept."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.kubernetes.fleets import kwok_nodes, patch_node, prepare
from tests.planes import IMAGE, pod, ready_nodes, unique
from tests.sandboxes import eventually
from tools.kubernetes.plane import ControlPlane
from tools.kubernetes.weather import Weather, weather

from gpufleet.clusters.base import GangSpec, Phase, PodSeen, PodSpec
from gpufleet.clusters.kubernetes import watching
from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.errors import NotFound, Refused, Temporary
from gpufleet.model.hardware import NodeState
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container

CREATES = r"POST /api/v1/namespaces/.*/pods\?"
OPENS = r"PATCH /api/v1/namespaces/.*/pods/"
EXPIRED = (
    '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}'
)


class Behind:
    """A cluster behind the weather, with two nodes of eight GPUs."""

    def __init__(
        self, sky: Weather, cluster: KubernetesCluster, client: httpx.Client, place: str, nodes: list[str]
    ) -> None:
        self.sky, self.cluster, self.client, self.place, self.nodes = sky, cluster, client, place, nodes

    def gang(self, pods: int = 4, job: str = "") -> GangSpec:
        job = job or unique("job")
        container = Container(("train",), IMAGE)
        specs = tuple(
            PodSpec(f"{job}-1-{n}", n, PodPlace(0, n, self.nodes[n % 2], gpus=(n // 2,)), container)
            for n in range(pods)
        )
        return GangSpec(job, 1, "vision", self.place, specs, timedelta(seconds=5))

    def seen(self, gang: GangSpec) -> list[PodSeen]:
        return [p for p in self.cluster.observe().pods if p.job == gang.job]

    def runs(self, gang: GangSpec) -> list[PodSeen]:
        def look() -> list[PodSeen] | None:
            pods = self.seen(gang)
            return pods if len(pods) == len(gang.pods) and all(p.phase is Phase.RUNNING for p in pods) else None

        return eventually(look)

    def names(self) -> list[str]:
        found = self.client.get(f"/api/v1/namespaces/{self.place}/pods").json()["items"]
        return sorted(p["metadata"]["name"] for p in found)


@pytest.fixture
def short_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that begins now is resumed a second later, so that weather made for watches is met soon."""
    monkeypatch.setattr(watching, "TURN", 1)


@pytest.fixture
def behind(control_plane: ControlPlane, client: httpx.Client, place: str, tmp_path: Path) -> Iterator[Behind]:
    prepare(client, place)
    with ExitStack() as stack:
        sky = stack.enter_context(weather(control_plane.kubeconfig))
        nodes = stack.enter_context(ready_nodes(client, kwok_nodes()))
        file = str(sky.kubeconfig(tmp_path / "kubeconfig"))
        cluster = KubernetesCluster("east", unique("fleet"), lambda: access_from(file), tmp_path, pods=PodConfig())
        stack.callback(cluster.close)
        found = Behind(sky, cluster, client, place, nodes)
        yield found
        sky.clear()
        for seen in cluster.observe().pods:
            cluster.stop(seen.job, seen.attempt, grace=timedelta(0))
        eventually(lambda: all(p.phase.is_over for p in cluster.observe().pods))
        for seen in cluster.observe().pods:
            cluster.remove(seen.job, seen.attempt)


class TestWrites:
    @pytest.mark.parametrize("status", [429, 500, 503])
    @pytest.mark.parametrize("when", [CREATES, OPENS])
    def test_a_server_that_says_later_is_asked_again_not_sooner(self, behind: Behind, when: str, status: int) -> None:
        trouble = behind.sky.make(when, times=3, status=status, retry_after="1")
        began = time.monotonic()
        gang = behind.gang()
        behind.cluster.launch(gang)
        behind.runs(gang)
        assert trouble.happened == 3 and time.monotonic() - began >= 1
        assert behind.names() == sorted(p.name for p in gang.pods)

    def test_one_that_never_stops_saying_so_is_given_up_for_now_with_its_words(self, behind: Behind) -> None:
        behind.cluster._api.patience = 0.5
        behind.sky.make(CREATES, times=10**6, status=500, message="etcdserver: leader changed")
        gang = behind.gang()
        with pytest.raises(Temporary, match="leader changed"):
            behind.cluster.launch(gang)
        behind.sky.clear()
        behind.cluster.launch(gang)
        assert len(behind.runs(gang)) == 4

    @pytest.mark.parametrize("when", [CREATES, OPENS, r"POST /api/v1/namespaces/.*/services\?"])
    def test_what_took_effect_though_the_answer_was_lost_is_adopted(self, behind: Behind, when: str) -> None:
        trouble = behind.sky.make(when, times=2, loses_answer=True)
        gang = behind.gang()
        behind.cluster.launch(gang)
        assert trouble.happened >= 1 and len(behind.runs(gang)) == 4
        assert behind.names() == sorted(p.name for p in gang.pods)

    def test_an_answer_that_comes_too_late_is_not_waited_for(self, behind: Behind) -> None:
        behind.cluster.observe()
        behind.cluster._api.timeout = 0.5
        behind.sky.make(CREATES, times=2, hangs=2.0)
        gang = behind.gang()
        behind.cluster.launch(gang)
        assert len(behind.runs(gang)) == 4

    def test_half_a_gang_holds_nothing_and_is_finished_by_the_next_try(self, behind: Behind) -> None:
        behind.cluster._api.patience = 0.5
        behind.sky.make(CREATES, times=2)
        behind.sky.make(CREATES, times=10**6, status=503)
        gang = behind.gang()
        with pytest.raises(Temporary):
            behind.cluster.launch(gang)
        assert len(behind.names()) == 2 and {p.phase for p in behind.seen(gang)} == {Phase.PENDING}
        assert all(p.bound_at is None for p in behind.seen(gang)), "nothing holds a GPU before all are there"
        behind.sky.clear()
        behind.cluster.launch(gang)
        behind.runs(gang)

    def test_a_namesake_that_is_not_ours_is_left_alone(self, behind: Behind) -> None:
        gang = behind.gang()
        stranger = pod(gang.pods[2].name, behind.nodes[0])
        behind.client.post(f"/api/v1/namespaces/{behind.place}/pods", json=stranger).raise_for_status()
        with pytest.raises(Refused, match="not ours"):
            behind.cluster.launch(gang)
        assert behind.names() == [gang.pods[2].name]

    def test_a_stop_without_an_answer_is_repeated(self, behind: Behind) -> None:
        gang = behind.gang()
        behind.cluster.launch(gang)
        behind.runs(gang)
        behind.sky.make("(PATCH|DELETE) .*/pods/", times=3, loses_answer=True)
        behind.cluster.stop(gang.job, 1, grace=timedelta(seconds=5))
        eventually(lambda: all(p.phase.is_over for p in behind.seen(gang)))
        assert {(p.phase, p.reason) for p in behind.seen(gang)} == {(Phase.FAILED, "evicted")}
        behind.sky.make("(PATCH|DELETE) .*/pods/", times=3, loses_answer=True)
        behind.cluster.remove(gang.job, 1)
        assert behind.seen(gang) == [] and behind.names() == []


class TestWatches:
    def test_cut_again_and_again_in_a_burst_they_lose_nothing(self, behind: Behind) -> None:
        behind.cluster.observe()
        behind.sky.make("GET .*watch=1", times=30, cuts_after=2)
        gang = behind.gang(pods=14)
        behind.cluster.launch(gang)
        assert len(behind.runs(gang)) == 14

    @pytest.mark.usefixtures("short_watches")
    @pytest.mark.parametrize("how", ["in the stream", "as a status"])
    def test_a_version_that_is_too_old_means_listing_again(self, behind: Behind, how: str) -> None:
        gang = behind.gang()
        behind.cluster.launch(gang)
        behind.runs(gang)
        lists = behind.sky.count(r"GET /api/v1/pods\?.*limit=")
        behind.sky.make("GET /api/v1/pods.*watch=1", times=1, cuts_after=0, last_line=EXPIRED)
        if how == "as a status":
            behind.sky.troubles[-1].last_line = ""
            behind.sky.make("GET /api/v1/pods.*watch=1", times=2, status=410)
        behind.cluster.stop(gang.job, 1, grace=timedelta(seconds=5))
        eventually(lambda: all(p.phase.is_over for p in behind.seen(gang)))
        eventually(lambda: behind.sky.count(r"GET /api/v1/pods\?.*limit=") > lists)
        assert len(behind.seen(gang)) == 4

    def test_a_cluster_that_is_not_heard_is_not_believed(self, behind: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "TURN", 1)
        behind.cluster._views._stale_after = 3.0
        behind.cluster.observe()
        behind.sky.make("GET .*watch=1", times=10**6, status=503)
        with pytest.raises(Temporary, match="last heard"):
            eventually(lambda: behind.cluster.observe() is None, within=40)
        behind.sky.clear()
        assert eventually(lambda: heard(behind))


def heard(behind: Behind) -> bool:
    with contextlib.suppress(Temporary):
        return bool(behind.cluster.observe().nodes)
    return False


class TestTime:
    @pytest.mark.parametrize("skew", [timedelta(hours=1), timedelta(hours=-1)])
    def test_the_clusters_own_clock_is_told_apart_from_ours(self, behind: Behind, skew: timedelta) -> None:
        behind.sky.skew = skew
        seen = behind.cluster.observe()
        assert abs(seen.cluster_time - seen.at - skew) < timedelta(seconds=3)
        assert behind.cluster.observe().cluster_time >= seen.cluster_time


class TestServersRestart:
    @pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
    def test_it_is_not_seen_for_a_while_and_then_as_it_was(
        self, behind: Behind, control_plane: ControlPlane, part: str
    ) -> None:
        gang = behind.gang()
        behind.cluster.launch(gang)
        behind.runs(gang)
        away = threading.Thread(target=control_plane.restart, args=(part,))
        away.start()
        other = behind.gang(pods=2)

        def launched() -> bool:
            try:
                behind.cluster.launch(other)
            except (Temporary, Refused):  # a server that just came up may not know yet who we are
                return False
            return True

        eventually(launched, within=60)
        away.join()
        assert len(behind.runs(other)) == 2 and len(behind.runs(gang)) == 4
        assert behind.names() == sorted(p.name for p in (*gang.pods, *other.pods))


def test_a_node_that_was_cordoned_takes_nothing(behind: Behind) -> None:
    patch_node(behind.client, behind.nodes[1], {"spec": {"unschedulable": True}})
    eventually(lambda: any(n.state is NodeState.CORDONED for n in behind.cluster.observe().nodes))
    with pytest.raises(Refused, match="cordoned"):
        behind.cluster.launch(behind.gang())
    assert behind.names() == []


def test_a_log_of_nobody_is_not_found(behind: Behind) -> None:
    with pytest.raises(NotFound):
        behind.cluster.logs("nobody", 1, 0)
