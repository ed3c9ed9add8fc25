"""What every kind of Cluster promises (`clusters/base.py`), asked of each kind alike.

A new kind is one more class with the methods of `ClusterKind` and one more line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import count
from pathlib import Path
from typing import ClassVar, Protocol

import pytest
from tests.planes import IMAGE
from tests.sandboxes import eventually, running_sandbox
from tools.kubernetes.access import write_kubeconfig
from tools.kubernetes.applying import apply
from tools.kubernetes.nodes import GpuNode
from tools.kubernetes.plane import ControlPlane, Options

from gpufleet.clusters.base import Cluster, GangSpec, Phase, PodSeen, PodSpec
from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.clusters.kubernetes.rendering.rbac import CONTROLLER, SYSTEM_NAMESPACE, installation_objects
from gpufleet.clusters.kubernetes.rendering.tenancy import team_objects
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import NotFound, Refused, Temporary
from gpufleet.model.hardware import Exactness, MigInstance, MigRemake, Node, NodeState
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import Queue, Team
from gpufleet.model.workload import Container
from gpufleet.units import GpuAmount

GRACE = timedelta(seconds=1)
_numbers = count(1)


class ClusterKind(Protocol):
    """A world with one node of at least four H100-80, and containers that behave as their names say.

    Tests share it and clean up after themselves.
    """

    cluster: Cluster
    node: str

    @property
    def unreachable(self) -> Cluster:
        """The same kind, with nobody at the other end."""
        ...

    def runs(self) -> Container:
        """Says `ready`, and runs until it is told to stop; then it leaves with exit code 0."""
        ...

    def is_deaf(self) -> Container:
        """Says `ready`, and does not hear SIGTERM."""
        ...

    def ends(self, code: int) -> Container:
        """Ends at once with this exit code."""
        ...


class _Sandbox:
    """The embedded world, in a process of its own."""

    node = "node-0"
    world: ClassVar = {
        "version": 1,
        "nodes": [{"name": "node-0", "model": "H100-80", "gpus": 8, "position": ["z", "l"], "cpu": 8}],
    }

    def __init__(self, home: Path) -> None:
        self.cluster: Cluster = SandboxCluster(home)
        self.unreachable: Cluster = SandboxCluster(home / "nobody")

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[ClusterKind]:
        with running_sandbox(home, cls.world):
            yield cls(home)

    def runs(self) -> Container:
        return Container(("sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done"))

    def is_deaf(self) -> Container:
        return Container(("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"))

    def ends(self, code: int) -> Container:
        return Container(("sh", "-c", f"echo one; echo two; exit {code}"))


class _Kubernetes:
    """A real API server of this suite alone; its one node is played by the process kubelet.

    The cluster is reached with the controller's service account, so everything promised works with its rights.
    """

    node = "node-0"
    team = Team("team-a", "team-a", (), namespace="team-a")

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        ours = plane.account(SYSTEM_NAMESPACE, CONTROLLER)
        nowhere = replace(ours, url="https://127.0.0.1:9")
        self.cluster: Cluster = self._reached_by(write_kubeconfig(home / "kubeconfig", ours), home)
        self.unreachable: Cluster = self._reached_by(write_kubeconfig(home / "nowhere.kubeconfig", nowhere), home)

    @staticmethod
    def _reached_by(kubeconfig: Path, home: Path) -> KubernetesCluster:
        pods = PodConfig(image=IMAGE)
        return KubernetesCluster("kubernetes", "test", lambda: access_from(str(kubeconfig)), home, pods=pods)

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[ClusterKind]:
        zones = {"topology.kubernetes.io/zone": "z"}
        with (
            ControlPlane(home / "plane", Options(kwok=False)) as plane,
            plane.kubelet(home / "kubelet", [GpuNode(cls.node, labels=zones).raw()]),
            plane.client() as client,
        ):
            operator = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}
            apply(client, [operator, *installation_objects("test"), *priority_classes("test")])
            kind = cls(plane, home)
            apply(client, team_objects("test", cls.team, (), kind.cluster.observe().nodes, PodConfig()))
            try:
                yield kind
            finally:
                for cluster in (kind.cluster, kind.unreachable):
                    cluster.close()

    runs, is_deaf, ends = _Sandbox.runs, _Sandbox.is_deaf, _Sandbox.ends


KINDS: dict[str, Callable[[Path], AbstractContextManager[ClusterKind]]] = {
    "sandbox": _Sandbox.open,
    "kubernetes": _Kubernetes.open,
}


@pytest.fixture(
    scope="module", params=["sandbox", pytest.param("kubernetes", marks=pytest.mark.kubernetes)], ids=lambda name: name
)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterKind]:
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as kind:
        yield kind


@pytest.fixture
def job(kind: ClusterKind) -> Iterator[str]:
    """The name of a job of this test alone, which ends with the test."""
    name = f"job-{next(_numbers)}"
    yield name
    kind.cluster.stop(name, 1, grace=timedelta(0))
    eventually(lambda: all(pod.phase.is_over for pod in pods_of(kind, name)))
    kind.cluster.remove(name, 1)


def gang(kind: ClusterKind, job: str, container: Container, *, pods: int = 1) -> GangSpec:
    specs = tuple(
        PodSpec(f"{job}-1-{rank}", rank, PodPlace(0, rank, kind.node, gpus=(rank,)), container) for rank in range(pods)
    )
    return GangSpec(job, 1, "team-a", "team-a", specs, GRACE)


def pods_of(kind: ClusterKind, job: str) -> list[PodSeen]:
    return [pod for pod in kind.cluster.observe().pods if pod.job == job]


def all_are(kind: ClusterKind, job: str, *phases: Phase) -> list[PodSeen] | None:
    pods = pods_of(kind, job)
    return pods if pods and all(pod.phase in phases for pod in pods) else None


def is_over(kind: ClusterKind, job: str) -> list[PodSeen]:
    return eventually(lambda: all_are(kind, job, Phase.SUCCEEDED, Phase.FAILED, Phase.LOST))


def is_ready(kind: ClusterKind, job: str) -> None:
    eventually(lambda: all_are(kind, job, Phase.RUNNING))
    eventually(lambda: "ready" in kind.cluster.logs(job, 1, 0))


def node_of(kind: ClusterKind) -> Node:
    return next(node for node in kind.cluster.observe().nodes if node.name == kind.node)


class TestObserve:
    def test_says_who_and_when(self, kind: ClusterKind) -> None:
        seen = kind.cluster.observe()
        assert seen.cluster == kind.cluster.name
        assert {node.cluster for node in seen.nodes} == {kind.cluster.name}
        assert (seen.at.tzinfo, seen.cluster_time.tzinfo) == (UTC, UTC)
        assert kind.cluster.observe().cluster_time >= seen.cluster_time

    def test_a_place_has_as_many_names_as_there_are_levels(self, kind: ClusterKind) -> None:
        seen = kind.cluster.observe()
        assert {len(node.position) for node in seen.nodes} == {len(seen.levels)}

    def test_nobody_there_is_temporary(self, kind: ClusterKind) -> None:
        with pytest.raises(Temporary):
            kind.unreachable.observe()


class TestLaunch:
    def test_all_pods_run_where_they_were_put(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.runs(), pods=2))
        pods = eventually(lambda: all_are(kind, job, Phase.RUNNING))
        assert [(pod.name, pod.attempt, pod.rank, pod.node) for pod in pods] == [
            (f"{job}-1-0", 1, 0, kind.node),
            (f"{job}-1-1", 1, 1, kind.node),
        ]
        if node_of(kind).exactness is Exactness.DEVICE:
            assert [pod.devices for pod in pods] == [(0,), (1,)]

    def test_use_is_metered_from_bound_on(self, kind: ClusterKind, job: str) -> None:
        before = kind.cluster.observe().cluster_time
        kind.cluster.launch(gang(kind, job, kind.ends(0)))
        (pod,) = is_over(kind, job)
        assert pod.bound_at and pod.started_at and pod.finished_at
        assert before <= pod.bound_at <= pod.started_at <= pod.finished_at <= kind.cluster.observe().cluster_time

    def test_again_it_is_adopted(self, kind: ClusterKind, job: str) -> None:
        wanted = gang(kind, job, kind.runs(), pods=2)
        kind.cluster.launch(wanted)
        before = eventually(lambda: all_are(kind, job, Phase.RUNNING))
        kind.cluster.launch(wanted)
        assert pods_of(kind, job) == before

    def test_again_after_its_end_it_is_not_started_anew(self, kind: ClusterKind, job: str) -> None:
        wanted = gang(kind, job, kind.ends(0))
        kind.cluster.launch(wanted)
        before = is_over(kind, job)
        kind.cluster.launch(wanted)
        assert pods_of(kind, job) == before

    def test_a_refused_gang_leaves_nothing(self, kind: ClusterKind, job: str) -> None:
        wanted = gang(kind, job, kind.runs(), pods=2)
        nowhere = replace(wanted.pods[1].place, node="no-such-node")
        with pytest.raises(Refused):
            kind.cluster.launch(replace(wanted, pods=(wanted.pods[0], replace(wanted.pods[1], place=nowhere))))
        assert pods_of(kind, job) == []

    @pytest.mark.parametrize(("code", "want"), [(0, Phase.SUCCEEDED), (7, Phase.FAILED)])
    def test_the_end_is_the_processes_own(self, kind: ClusterKind, job: str, code: int, want: Phase) -> None:
        kind.cluster.launch(gang(kind, job, kind.ends(code)))
        (pod,) = is_over(kind, job)
        assert (pod.phase, pod.exit_code, pod.reason) == (want, code, "")

    def test_nobody_there_is_temporary(self, kind: ClusterKind) -> None:
        with pytest.raises(Temporary):
            kind.unreachable.launch(gang(kind, "nobody", kind.ends(0)))


class TestStop:
    def test_it_may_leave_by_itself(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.runs()))
        is_ready(kind, job)
        kind.cluster.stop(job, 1, grace=timedelta(seconds=60))
        (pod,) = is_over(kind, job)
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, 0, "evicted")

    def test_after_the_grace_it_is_killed(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.is_deaf()))
        is_ready(kind, job)
        kind.cluster.stop(job, 1, grace=timedelta(milliseconds=300))
        (pod,) = is_over(kind, job)
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, 137, "evicted")

    def test_what_has_ended_keeps_its_end(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.ends(0)))
        before = is_over(kind, job)
        kind.cluster.stop(job, 1, grace=GRACE)
        assert pods_of(kind, job) == before

    def test_a_gone_attempt_is_done(self, kind: ClusterKind) -> None:
        kind.cluster.stop("nobody", 1, grace=GRACE)


class TestRemove:
    def test_ended_pods_are_forgotten_and_logs_stay(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.ends(0)))
        is_over(kind, job)
        for _ in range(2):
            kind.cluster.remove(job, 1)
            assert pods_of(kind, job) == []
        assert kind.cluster.logs(job, 1, 0) == "one\ntwo\n"

    def test_running_pods_stay(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.runs()))
        before = eventually(lambda: all_are(kind, job, Phase.RUNNING))
        kind.cluster.remove(job, 1)
        assert pods_of(kind, job) == before


class TestRequestSave:
    def test_it_may_be_asked_again_and_of_nobody(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.runs()))
        for number in (1, 1, 2):
            kind.cluster.request_save(job, 1, number)
        kind.cluster.request_save("nobody", 1, 1)


class TestRepartition:
    SMALL, LARGE = MigInstance(0, "1g.10gb"), MigInstance(4, "3g.40gb")

    def test_done_already_is_done(self, kind: ClusterKind) -> None:
        if node_of(kind).mig is MigRemake.NEVER:  # what cannot be remade while it serves is refused, and nothing else
            with pytest.raises(Refused):
                kind.cluster.repartition(kind.node, 3, destroy=(), create=(self.SMALL, self.LARGE))
            return
        for _ in range(2):
            kind.cluster.repartition(kind.node, 3, destroy=(), create=(self.SMALL, self.LARGE))
            assert self.layout(kind) == (self.SMALL, self.LARGE)
        for _ in range(2):
            kind.cluster.repartition(kind.node, 3, destroy=(self.SMALL, self.LARGE), create=())
            assert self.layout(kind) == ()

    def test_what_cannot_be_is_refused(self, kind: ClusterKind) -> None:
        with pytest.raises(Refused):
            kind.cluster.repartition(kind.node, 3, destroy=(), create=(self.SMALL, MigInstance(0, "7g.80gb")))
        assert self.layout(kind) == ()

    def layout(self, kind: ClusterKind) -> tuple[MigInstance, ...]:
        return next(device.instances for device in node_of(kind).devices if device.index == 3)


class TestCordon:
    def test_nothing_new_starts_there(self, kind: ClusterKind, job: str) -> None:
        for _ in range(2):
            kind.cluster.cordon(kind.node, on=True)
            assert node_of(kind).state is NodeState.CORDONED
        with pytest.raises(Refused):
            kind.cluster.launch(gang(kind, job, kind.runs()))
        for _ in range(2):
            kind.cluster.cordon(kind.node, on=False)
            assert node_of(kind).state is NodeState.READY
        kind.cluster.launch(gang(kind, job, kind.runs()))

    def test_what_runs_goes_on(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.runs()))
        before = eventually(lambda: all_are(kind, job, Phase.RUNNING))
        kind.cluster.cordon(kind.node, on=True)
        assert pods_of(kind, job) == before
        kind.cluster.cordon(kind.node, on=False)


class TestLogs:
    def test_the_last_lines(self, kind: ClusterKind, job: str) -> None:
        kind.cluster.launch(gang(kind, job, kind.ends(0)))
        is_over(kind, job)
        assert [kind.cluster.logs(job, 1, 0, tail=tail) for tail in (5, 2, 1)] == ["one\ntwo\n", "one\ntwo\n", "two\n"]

    def test_a_pod_never_seen_is_not_found(self, kind: ClusterKind) -> None:
        with pytest.raises(NotFound):
            kind.cluster.logs("nobody", 1, 0)


class TestFence:
    def test_it_may_be_repeated_and_stands_in_nobodys_way(self, kind: ClusterKind, job: str) -> None:
        teams = (Team("team-a", "team-a", (), namespace="team-a"), Team("nowhere", "team-a", (), namespace="not-there"))
        for _ in range(2):
            kind.cluster.fence(teams, (Queue("team-a", "root", limit=(("*", GpuAmount.of(8)),)),))
        kind.cluster.launch(gang(kind, job, kind.ends(0)))
        assert {pod.phase for pod in is_over(kind, job)} == {Phase.SUCCEEDED}
