"""What was measured is kept on both databases, only grows, and tells the right team what its workload needs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from alembic import command
from sqlalchemy import select

from gpufleet.model.workload import Job, Kind, PodSet, Whole, Workload
from gpufleet.placement.memory import CONTEXT_MIB, Measured, MemoryPoint
from gpufleet.store import jobs, memory
from gpufleet.store import schema as t
from gpufleet.store.database import Database
from gpufleet.store.memory import Peak
from gpufleet.store.migrate import config, migrate

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
NET = Workload("net", 2, 2048)


def noted(
    database: Database, job: str, *seen: Peak, team: str = "vision", attempt: int = 1, ran: Workload | None = NET
) -> None:
    asked = Job(job, team, "p", "q", Kind.TRAINING, (PodSet(1, Whole(1), derived="from w"),), NOW, workload=ran)
    with database.write() as connection:
        if jobs.get(connection, job) is None:
            jobs.add_job(connection, asked)
        for peak in seen:
            memory.note_all(connection, {(job, attempt): peak}, NOW)


def told(database: Database, team: str = "vision") -> list[tuple[str, int, bool]]:
    with database.read() as connection:
        return [(p.source, p.held_mib, p.killed) for p in memory.points(connection, "net", team)]


def test_the_largest_of_all_looks_counts(database: Database) -> None:
    noted(database, "a", Peak(), Peak(device_mib=900), Peak(device_mib=5000), Peak(device_mib=700, settled=True))
    with database.read() as connection:
        (point,) = memory.points(connection, "net", "vision")
    assert point == MemoryPoint(NET, 5000, Measured.DEVICE, source="a/1")


def test_what_the_allocator_knew_wins_where_the_cluster_missed_it(database: Database) -> None:
    noted(database, "a", Peak(5000, settled=True), Peak(allocator_mib=5000))
    assert told(database) == [("a/1", 5000 + CONTEXT_MIB, False)]


def test_a_run_that_only_began_tells_nothing_and_a_killed_one_does(database: Database) -> None:
    noted(database, "began", Peak(5000))
    noted(database, "killed", Peak(9000, killed=True))
    noted(database, "silent", Peak(settled=True), Peak(killed=True))
    noted(database, "nameless", Peak(7000, settled=True), ran=None)
    assert told(database) == [("killed/1", 9000, True)]


def test_a_teams_own_runs_come_first_and_others_serve_until_then(database: Database) -> None:
    noted(database, "theirs", Peak(8000, settled=True), team="language")
    assert told(database) == [("theirs/1", 8000, False)]
    noted(database, "mine-killed", Peak(7000, killed=True))
    assert told(database) == [("mine-killed/1", 7000, True), ("theirs/1", 8000, False)]
    noted(database, "mine", Peak(5000, settled=True))
    assert told(database) == [("mine/1", 5000, False), ("mine-killed/1", 7000, True)]
    assert told(database, "language") == [("theirs/1", 8000, False)]


@pytest.mark.parametrize("damage", [0, -5, 2**62])
def test_a_number_no_gpu_has_is_not_kept(database: Database, damage: int) -> None:
    noted(database, "a", Peak(allocator_mib=damage, settled=True))
    assert told(database) == []


def test_what_killed_an_attempt_is_forgiven_once_a_later_one_ran_whole(database: Database) -> None:
    noted(database, "a", Peak(9984, killed=True))
    with database.read() as connection:
        assert memory.peaks(connection, ["a", "b"]) == {"a": Peak(9984, killed=True)}
    noted(database, "a", Peak(12_000, settled=True), attempt=2)
    with database.read() as connection:
        assert memory.peaks(connection, ["a"]) == {"a": Peak(12_000, settled=True)}


def test_a_database_of_the_version_before_keeps_its_jobs(database: Database) -> None:
    noted(database, "a", Peak(5000, settled=True))
    alembic = config()
    with database.engine.connect() as connection:
        alembic.attributes["connection"] = connection
        command.downgrade(alembic, "0001")
        connection.commit()
    migrate(database)
    with database.read() as connection:
        row = jobs.get(connection, "a")
        assert row is not None and (row.job.workload, row.job.pod_sets[0].derived) == (NET, "from w")
    assert told(database) == []


def test_a_job_written_before_workloads_were_known_is_still_read(database: Database) -> None:
    noted(database, "a")
    with database.write() as connection:
        spec = connection.execute(select(t.job.c.spec)).scalar_one()
        spec.pop("workload")
        spec["pod_sets"][0].pop("derived")
        jobs.change(connection, "a", spec=spec)
        row = jobs.get(connection, "a")
        assert row is not None and (row.job.workload, row.job.pod_sets[0].derived) == (None, "")
