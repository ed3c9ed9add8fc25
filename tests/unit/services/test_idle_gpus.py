"""GPUs that are held and do not work: since when is kept, and after a while it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.clusters.base import Phase, PodSeen
from gpufleet.model.policy import RecoveryPolicy
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Job, Kind, PodSet, Whole
from gpufleet.services.idle_gpus import idle_jobs, note_use
from gpufleet.store import jobs
from gpufleet.store.database import Database

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
POLICY = RecoveryPolicy(idle_below=0.05, idle_alarm=timedelta(minutes=30))


@pytest.fixture
def running(database: Database) -> Database:
    """One job of two pods that runs."""
    with database.write() as connection:
        jobs.add_job(connection, Job("a", "vision", "p", "q", Kind.TRAINING, (PodSet(2, Whole(1)),), NOW))
        held = tuple(PodPlace(0, rank, "n1", gpus=(rank,)) for rank in range(2))
        jobs.add_attempts(connection, [jobs.NewAttempt("a", "main", held, {})], NOW)
        jobs.attempts_run(connection, [("a", 1)], NOW)
    return database


def look(database: Database, minutes: int, *busy: float | None) -> None:
    pods = [PodSeen(f"a-1-{i}", "a", 1, i, "n1", Phase.RUNNING, busy=b) for i, b in enumerate(busy)]
    with database.write() as connection:
        live = jobs.live_attempts(connection)
        note_use(connection, live, {("a", 1): pods}, POLICY, NOW + timedelta(minutes=minutes))


def idle(database: Database, minutes: int) -> list[tuple[str, float]]:
    with database.read() as connection:
        rows, live = jobs.get_many(connection, ["a"]), jobs.live_attempts(connection)
        return [(j["job"], j["busy"]) for j in idle_jobs(rows, live, POLICY, NOW + timedelta(minutes=minutes))]


def test_half_an_hour_without_work_is_told_and_work_ends_it(running: Database) -> None:
    look(running, 0, 0.9, 0.8)
    look(running, 10, 0.01, 0.03)
    look(running, 39, 0.0, 0.02)
    assert idle(running, 39) == []
    assert idle(running, 40) == [("a", 0.01)]
    look(running, 41, 0.5, 0.4)
    assert idle(running, 80) == []
    look(running, 90, 0.0, 0.0)
    assert idle(running, 100) == []


def test_one_pod_that_works_keeps_its_idle_peer_from_being_told(running: Database) -> None:
    look(running, 0, 0.0, 0.2)
    assert idle(running, 60) == []


def test_where_nobody_measures_nothing_is_told(running: Database) -> None:
    look(running, 0, None, None)
    with running.read() as connection:
        (attempt,) = jobs.live_attempts(connection)
    assert (attempt.busy, attempt.idle_since) == (None, None)
    assert idle(running, 600) == []
