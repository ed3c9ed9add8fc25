"""The store on both databases: facts survive the way in and out, fences hold, leases and operations behave."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError

from gpufleet.errors import Invalid, Permanent
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.hardware import Device, MigInstance, Node
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.tenancy import Member, Queue, Role, Team
from gpufleet.model.workload import (
    CheckpointPolicy,
    Demand,
    Job,
    Kind,
    Needs,
    PodSet,
    Share,
    Slice,
    TopologyWish,
    Whole,
)
from gpufleet.store import jobs, leases, operations, places, tenancy, world
from gpufleet.store import schema as t
from gpufleet.store.codec import dump_job, dump_node, load_job, load_node
from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate, require_migrated
from gpufleet.units import GpuAmount

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def a_job(id: str = "j", **more: Any) -> Job:
    asked = {"pod_sets": (PodSet(1, Whole(1)),), "submitted_at": NOW, "team": "vision", "project": "p", "queue": "q"}
    return Job(id=id, kind=Kind.TRAINING, **{**asked, **more})


DEMANDS: st.SearchStrategy[Demand] = st.one_of(
    st.builds(Whole, st.integers(1, 16)),
    st.builds(Slice, st.integers(0, 10**6), st.integers(1, 7), st.none() | st.sampled_from(["1g.10gb", "3g.40gb"])),
    st.builds(Share, st.integers(1, 1000), st.integers(1, 10**6)),
)


@given(
    st.lists(
        st.builds(
            PodSet, st.integers(1, 9), DEMANDS, st.none() | st.floats(0.5, 64), st.none() | st.integers(1, 10**6)
        ),
        min_size=1,
    ),
    st.builds(CheckpointPolicy, st.timedeltas(timedelta(seconds=1), timedelta(days=1))),
    st.lists(st.sampled_from(CapacityType), unique=True),
)
def test_a_job_survives_the_way_in_and_out(
    sets: list[PodSet], policy: CheckpointPolicy, capacity: list[CapacityType]
) -> None:
    job = a_job(
        pod_sets=tuple(sets), checkpoint=policy, capacity=tuple(capacity), topology=TopologyWish("leaf", None),
        needs=Needs(40960, (9, 0)), runtime=timedelta(hours=2), labels=(("a", "b"),),
    )  # fmt: skip
    assert load_job(json.dumps(dump_job(job))) == job


@pytest.mark.parametrize("model", sorted(gpu_models()))
def test_a_node_of_every_model_survives_the_way_in_and_out(model: str) -> None:
    found = gpu_models()[model]
    instances = (MigInstance(found.profiles[0].starts[0], found.profiles[0].name),) if found.profiles else ()
    node = Node("n", found, (Device(0, instances), Device(1, healthy=False)), ("z", "l"), cpu=1.5, memory_mib=4)
    assert load_node(json.dumps(dump_node(node))) == node


def test_migrating_twice_changes_nothing_and_every_table_is_there(database: Database) -> None:
    migrate(database)
    with database.read() as connection:
        require_migrated(connection)
        assert set(t.metadata.tables) <= set(inspect(connection).get_table_names())


def test_a_database_without_tables_says_what_to_run(tmp_path: Any) -> None:
    empty = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    with empty.read() as connection, pytest.raises(Permanent, match=r"gpufleet doctor --migrate"):
        require_migrated(connection)


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(Invalid, match="mysql://"):
        Database("mysql://me:secret@host/db")


def test_several_processes_may_migrate_at_once(database_url: str) -> None:
    failures: list[BaseException] = []

    def go() -> None:
        found = Database(database_url)
        try:
            migrate(found)
        except BaseException as e:
            failures.append(e)
        finally:
            found.dispose()

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# ------------------------------------------------------------------ fences


def an_attempt(job: str, node: str) -> jobs.NewAttempt:
    return jobs.NewAttempt(job, "main", (PodPlace(0, 0, node, gpus=(0,)),), {})


def hold(database: Database, job: str, *held: PodPlace) -> None:
    with database.write() as connection:
        row = a_job(job)
        jobs.add_job(connection, row)
        jobs.add_attempts(connection, [jobs.NewAttempt(row.id, "main", held, {})], NOW)


def test_the_database_refuses_a_whole_gpu_given_twice(database: Database) -> None:
    hold(database, "a", PodPlace(0, 0, "n1", gpus=(3,)))
    with pytest.raises(IntegrityError):
        hold(database, "b", PodPlace(0, 0, "n1", gpus=(3,)))
    with database.read() as connection:
        assert [r.job.id for r in jobs.live(connection)] == ["a"]


def test_the_database_refuses_a_slice_given_twice_and_takes_its_neighbour(database: Database) -> None:
    hold(database, "a", PodPlace(0, 0, "n1", slices=(SliceOn(0, MigInstance(4, "1g.10gb")),)))
    hold(database, "b", PodPlace(0, 0, "n1", slices=(SliceOn(0, MigInstance(5, "1g.10gb")),)))
    with pytest.raises(IntegrityError):
        hold(database, "c", PodPlace(0, 0, "n1", slices=(SliceOn(0, MigInstance(4, "1g.10gb")),)))


def test_a_second_live_attempt_is_refused_and_one_after_the_end_is_not(database: Database) -> None:
    hold(database, "a", PodPlace(0, 0, "n1", gpus=(0,)))
    with pytest.raises(IntegrityError), database.write() as connection:
        jobs.add_attempts(connection, [an_attempt("a", "n2")], NOW)
    with database.write() as connection:
        places.give_back(connection, "a", 1)
        jobs.change_attempt(connection, "a", 1, state="ended", ended_at=NOW)
        assert jobs.add_attempts(connection, [an_attempt("a", "n1")], NOW) == {"a": 2}


def test_places_come_back_as_they_were_given(database: Database) -> None:
    held = (
        PodPlace(0, 0, "n1", gpus=(0, 1), cpu=4, memory_mib=512),
        PodPlace(1, 1, "n1", slices=(SliceOn(2, MigInstance(0, "3g.40gb")),)),
        PodPlace(2, 2, "n2", shares=(ShareOn(5, 250, 4096),)),
    )
    hold(database, "a", *held)
    with database.read() as connection:
        assert places.live_places(connection) == {("a", 1): held}


# ------------------------------------------------------------------ leases and operations


def test_one_holds_a_lease_until_it_runs_out(database: Database) -> None:
    length = timedelta(seconds=10)
    with database.write() as connection:
        assert leases.take(connection, "tick", "a", NOW, length)
        assert leases.take(connection, "tick", "a", NOW, length), "its holder may renew it"
        assert not leases.take(connection, "tick", "b", NOW + timedelta(seconds=9), length)
        assert leases.take(connection, "tick", "b", NOW + timedelta(seconds=11), length)
        assert leases.holder(connection, "tick", NOW + timedelta(seconds=12)) == "b"


def test_a_call_that_comes_while_the_holder_finishes_is_not_forgotten(database: Database) -> None:
    with database.write() as connection:
        leases.ensure_fleet(connection, "f")
        leases.take(connection, "tick", "a", NOW, timedelta(seconds=10))
        leases.set_done(connection, leases.raise_wanted(connection))
        leases.raise_wanted(connection)
        assert not leases.finish(connection, "tick", "a"), "somebody asked meanwhile: go on"
        leases.set_done(connection, leases.counters(connection)[0])
        assert leases.finish(connection, "tick", "a")


def decide(database: Database, name: str, target: str, **more: Any) -> int:
    with database.write() as connection:
        return operations.decide(connection, NOW, kind="stop", target=target, name=name, args={}, **more)


def lease(database: Database, token: str, at: datetime = NOW) -> str | None:
    with database.write() as connection:
        found = operations.lease(connection, at, token=token, length=timedelta(seconds=10), most=1)
        return found[0].name if found else None


def finish(database: Database, id: int, token: str, state: str = "done") -> None:
    with database.write() as connection:
        assert operations.record(connection, id, token, NOW, state=state)


def test_operations_on_one_target_run_in_sequence_and_others_beside_them(database: Database) -> None:
    first = decide(database, "first", "job/a")
    decide(database, "second", "job/a")
    decide(database, "other", "job/b")
    assert [lease(database, token) for token in "xyz"] == ["first", "other", None]
    finish(database, first, "x")
    assert lease(database, "z") == "second"


def test_an_operation_waits_for_those_it_comes_after(database: Database) -> None:
    slices = decide(database, "repartition", "gpu/n1/0")
    launch = decide(database, "launch", "job/a", after=(slices,))
    assert [lease(database, "x"), lease(database, "y")] == ["repartition", None]
    finish(database, slices, "x", "failed")
    assert lease(database, "y") == "launch"
    with database.read() as connection:
        assert set(operations.failed_before(connection, [launch])) == {launch}


def test_a_lease_that_ran_out_is_taken_by_the_next(database: Database) -> None:
    decide(database, "stop", "job/a")
    assert lease(database, "x") == "stop"
    assert lease(database, "y", NOW + timedelta(seconds=5)) is None
    assert lease(database, "y", NOW + timedelta(seconds=11)) == "stop"


def test_the_same_decision_twice_is_one_effect(database: Database) -> None:
    assert decide(database, "stop", "job/a") == decide(database, "stop", "job/a")


# ------------------------------------------------------------------ tenancy, world


def test_teams_and_queues_come_back_as_they_were_configured(database: Database) -> None:
    queues = (
        Queue(
            "q",
            "root",
            (("*", GpuAmount.of(8)),),
            (("*", GpuAmount.of(16)), ("H100-80", GpuAmount.of(8))),
            2.0,
            timedelta(minutes=5),
        ),
    )
    teams = (Team("vision", "q", ("digits",), (Member("ada", Role.LEAD),), ("nightly",), "ns"),)
    with database.write() as connection:
        tenancy.replace_tenancy(connection, teams, queues)
        tenancy.replace_tenancy(connection, teams, queues)
    with database.read() as connection:
        assert (tenancy.teams(connection), tenancy.queues(connection)) == (teams, queues)


def test_nodes_that_left_are_gone_and_only_a_change_counts_as_one(database: Database) -> None:
    node = Node("n1", gpu_models()["H100-80"], (Device(0),))
    with database.write() as connection:
        assert world.put_nodes(connection, "main", [node], NOW)
        assert not world.put_nodes(connection, "main", [node], NOW)
        assert world.put_nodes(connection, "main", [], NOW)
        assert world.nodes(connection) == ()
