"""The whole way through a real Kueue: submitted to us, admitted by it, its reasons in our explain, its evictions our attempts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.kubernetes.kueues import LEVELS, NAMES, QUEUES, SPACES, TEAMS, nodes_of_kueue
from tests.planes import IMAGE
from tests.sandboxes import eventually
from tools.kubernetes.plane import ControlPlane

from gpufleet.clock import SystemClock
from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.labels import seeing_config
from gpufleet.clusters.kubernetes.rendering.handoff import kueue as handing
from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Member, Principal, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.change_job import cancel_job
from gpufleet.services.explain_job import explain_job
from gpufleet.services.fleet import Fleet
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import tick
from gpufleet.store import jobs
from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate

ADA = Principal("ada")


@dataclass
class Lent:
    """A fleet both of whose queues are Kueue's."""

    fleet: Fleet
    client: httpx.Client

    def submit(self, team: str, count: int, **more: Any) -> str:
        asked = {"team": team, "project": "p", "command": "x", "image": IMAGE, "pods": count, "gpus": 8}
        return submit_job(self.fleet, parse_request(asked | more), ADA).job

    def until(self, job: str, state: str, *words: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            tick(self.fleet)
            told = explain_job(self.fleet, job)
            return told if told["state"] == state and all(word in str(told) for word in words) else None

        return eventually(look, within=60.0)

    def end(self, *ended: str) -> None:
        for job in ended:
            cancel_job(self.fleet, job, ADA)
        for job in ended:
            self.until(job, "cancelled")

    def end_all(self, *ended: str) -> None:
        """Nothing of ours is left, neither with the API nor with Kueue."""
        self.end(*ended)
        eventually(lambda: tick(self.fleet) and not self.left())

    def left(self) -> list[str]:
        """Pods and Workloads that are still there."""
        folders = [f"/api/v1/namespaces/{s}/pods" for s in SPACES.values()]
        folders += [f"/apis/{handing.API}/namespaces/{s}/workloads" for s in SPACES.values()]
        return [o["metadata"]["name"] for f in folders for o in self.client.get(f).json()["items"]]


@pytest.fixture(scope="module")
def lent(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lent]:
    home = tmp_path_factory.mktemp("lent")
    file = str(control_plane.kubeconfig)
    database = Database(f"sqlite:///{home / 'fleet.db'}")
    migrate(database)
    pods, handoff = PodConfig(service_account="default"), {q.name: "kueue" for q in QUEUES}
    seeing = seeing_config(levels=tuple((level.name, (level.label,)) for level in LEVELS))
    with control_plane.client() as client, nodes_of_kueue(client, control_plane):
        east = KubernetesCluster(
            "east", "main", lambda: access_from(file), home, pods=pods, seeing=seeing, handoff=handoff
        )
        handed = dict.fromkeys(handoff, "east")
        fleet = Fleet("main", home, database, {"east": east}, {}, SystemClock(), str(home / "saves"), handed=handed)
        teams = tuple(Team(t.name, t.queue, t.projects, (Member("ada"),), namespace=t.namespace) for t in TEAMS)
        apply_config(fleet, teams, QUEUES, {})
        yield Lent(fleet, client)
        east.close()


def test_a_gang_is_admitted_inside_one_rack_and_we_know_where(lent: Lent) -> None:
    job = lent.submit("owner", 2, topology_required="leaf")
    where = lent.until(job, "running")["where"]
    assert [place["gpus"] for place in where] == [list(range(8))] * 2
    assert len({place["node"] for place in where}) == 2
    assert len({place["node"][-2] for place in where}) == 1
    lent.end_all(job)


def test_over_the_quota_it_waits_and_explain_tells_kueues_reason(lent: Lent) -> None:
    job = lent.submit("owner", len(NAMES) + 1)
    told = lent.until(job, "pending", "insufficient")
    assert told["reason"] == "handed-over"
    assert told["detail"].startswith("kueue: ") and "nvidia.com/gpu" in told["detail"]
    assert told["attempts"][0]["state"] == "starting", "that line is Kueue's: no start of ours runs late in it"
    lent.end_all(job)


def test_what_was_lent_is_taken_back_and_waits_for_its_next_turn(lent: Lent) -> None:
    borrowed = lent.submit("borrower", 4)
    lent.until(borrowed, "running")
    own = lent.submit("owner", 2)
    told = lent.until(borrowed, "pending", "kueue took it off: Preempted")
    lent.until(own, "running")
    assert [a["attempt"] for a in told["attempts"]][:1] == [1]
    lent.end(own)
    lent.until(borrowed, "running")
    with lent.fleet.database.read() as connection:
        first, *_, last = jobs.attempts(connection, borrowed)
    assert last.number > first.number
    lent.end_all(borrowed)
    assert _ended(first.ended_at) <= _ended(last.decided_at) + timedelta(seconds=1)


def _ended(at: datetime | None) -> datetime:
    assert at is not None
    return at
