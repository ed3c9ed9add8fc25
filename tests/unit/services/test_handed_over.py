"""Queues that another scheduler places: it keeps the line, we follow, and the bill and the reasons are ours as ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.obliging import Obliging

from gpufleet.clusters.base import SCHEDULER, Observation, Phase, PodSeen
from gpufleet.clusters.handed import Admission, Handed, Stage
from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Member, Principal, Queue, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.change_job import cancel_job
from gpufleet.services.explain_job import explain_job
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import one_round
from gpufleet.store import places
from gpufleet.store import schema as t
from gpufleet.store.database import Database

ADA = Principal("ada")


@dataclass
class Clock:
    at: datetime = datetime(2026, 3, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Lender(Obliging):
    """A cluster where node n0 is Kueue's. What is handed over waits, with Kueue's words, until the test says where it runs."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(2)
        first, second = self.nodes
        self.nodes = (replace(first, labels=((SCHEDULER, "kueue"),)), second)
        self.clock, self.says = clock, dict[tuple[str, int], Admission]()

    def observe(self) -> Observation:
        seen = super().observe()
        return replace(seen, at=self.clock.at, cluster_time=self.clock.at, admissions=dict(self.says))

    def hand_over(self, handed: Handed) -> None:
        key = (handed.job.id, handed.attempt)
        if key not in self.pods:
            self.pods[key] = tuple(
                PodSeen(f"{handed.job.id}-{rank}", *key, rank, "", Phase.PENDING) for rank in range(handed.job.pods)
            )
            self.says[key] = Admission(Stage.WAITING, "Pending", "insufficient quota for GPUs", 3, "kueue")

    def admit(self, key: tuple[str, int], *devices: int) -> None:
        self.says[key] = Admission(Stage.ADMITTED, scheduler="kueue")
        now = self.clock.at
        self.pods[key] = tuple(
            replace(p, node="n0", phase=Phase.RUNNING, bound_at=now, started_at=now, devices=devices)
            for p in self.pods[key]
        )

    def end(self, key: tuple[str, int], phase: Phase, reason: str = "") -> None:
        self.pods[key] = tuple(
            replace(p, phase=phase, reason=reason, finished_at=self.clock.at) for p in self.pods[key]
        )

    def remove(self, job: str, attempt: int) -> None:
        super().remove(job, attempt)
        self.says.pop((job, attempt), None)


@dataclass
class World:
    fleet: Fleet
    cluster: Lender
    clock: Clock
    named: dict[str, str] = field(default_factory=dict)

    def submit(self, team: str = "lent", **more: Any) -> str:
        request = {"team": team, "project": "p", "name": "j", "gpus": 2, "command": "x"} | more
        return submit_job(self.fleet, parse_request(request), ADA).job

    def pass_time(self, minutes: float = 0.1, rounds: int = 2) -> None:
        for _ in range(rounds):
            self.clock.at += timedelta(minutes=minutes)
            one_round(self.fleet)

    def told(self, job: str) -> dict[str, Any]:
        return explain_job(self.fleet, job)

    def used(self) -> list[tuple[str, int]]:
        with self.fleet.database.read() as connection:
            rows = connection.execute(select(t.usage_event).where(t.usage_event.c.job.is_not(None)))
            return sorted((row.event, row.gpu) for row in rows)


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    clock = Clock()
    cluster = Lender(clock)
    fleet = Fleet("f", tmp_path, database, {"main": cluster}, {}, clock, str(tmp_path / "s"), handed={"lent": "main"})
    teams = tuple(Team(name, name, ("p",), (Member("ada"),)) for name in ("lent", "own"))
    apply_config(fleet, teams, tuple(Queue(team.queue, "root") for team in teams), {})
    one_round(fleet)
    yield World(fleet, cluster, clock)


def test_a_job_that_waits_shows_the_other_schedulers_words_and_its_place_in_that_line(world: World) -> None:
    job = world.submit()
    world.pass_time()
    told = world.told(job)
    assert (told["state"], told["reason"], told["position"]) == ("pending", "handed-over", 3)
    assert told["detail"] == "kueue: insufficient quota for GPUs"


def test_it_may_wait_for_hours_without_being_late(world: World) -> None:
    job = world.submit()
    world.pass_time(minutes=300)
    assert [a["state"] for a in world.told(job)["attempts"]] == ["starting"]


def test_once_placed_it_runs_where_it_was_put_and_is_metered(world: World) -> None:
    job = world.submit()
    world.pass_time()
    world.cluster.admit((job, 1), 5, 6)
    world.pass_time()
    told = world.told(job)
    assert (told["state"], told["detail"]) == ("running", "")
    assert [(p["node"], p["gpus"]) for p in told["where"]] == [("n0", [5, 6])]
    world.cluster.end((job, 1), Phase.SUCCEEDED)
    world.pass_time()
    assert world.told(job)["state"] == "succeeded"
    assert world.used() == [("allocated", 5), ("allocated", 6), ("released", 5), ("released", 6)]


def test_without_a_word_about_devices_none_is_counted_twice(world: World) -> None:
    first, second = world.submit(), world.submit()
    world.pass_time()
    world.cluster.admit((first, 1))
    world.cluster.admit((second, 1))
    world.pass_time()
    held = [gpu for job in (first, second) for place in world.told(job)["where"] for gpu in place["gpus"]]
    assert sorted(held) == [0, 1, 2, 3]


def test_what_the_other_scheduler_takes_off_goes_back_into_its_line(world: World) -> None:
    job = world.submit()
    world.pass_time()
    world.cluster.admit((job, 1))
    world.pass_time()
    world.cluster.says[job, 1] = Admission(Stage.EVICTED, "Preempted", "to reclaim", scheduler="kueue")
    world.pass_time(rounds=3)
    told = world.told(job)
    assert told["attempts"][0]["end_reason"] == "kueue took it off: Preempted: to reclaim"
    assert [a["attempt"] for a in told["attempts"]] == [1, 2]
    assert told["state"] == "pending"


def test_a_cancel_while_it_waits_takes_it_out_of_that_line(world: World) -> None:
    job = world.submit()
    world.pass_time()
    cancel_job(world.fleet, job, ADA, "not needed")
    world.pass_time(rounds=3)
    assert world.told(job)["state"] == "cancelled"
    assert not world.cluster.pods


def test_our_pass_neither_sees_those_nodes_nor_those_jobs(world: World) -> None:
    lent, own = world.submit(), world.submit("own", gpus=8)
    world.pass_time()
    world.cluster.admit((lent, 1))
    world.pass_time()
    assert [p["node"] for p in world.told(own)["where"]] == ["n1"]
    second = world.submit("own", gpus=8)
    world.pass_time()
    assert world.told(second)["state"] == "pending"
    with world.fleet.database.read() as connection:
        snapshot = frozen(connection, world.fleet, world.clock.at)
        assert {n.name for n in snapshot.nodes} == {"n1"}
        assert {r.job.id for r in snapshot.running} == {own}
        assert [w.job.id for w in snapshot.pending] == [second]
        assert (lent, 1) in places.live_places(connection)
