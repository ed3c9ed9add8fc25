"""kill -9 in the middle of a running job, without Airflow: the job ends well, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.fleets import WORLD, Played, played
from tests.sandboxes import eventually

from gpufleet.model.tenancy import Principal
from gpufleet.services import apply_operations as executor
from gpufleet.services.advance import operation_name
from gpufleet.services.change_job import cancel_job
from gpufleet.services.observe import observe
from gpufleet.services.run_pass import run_pass
from gpufleet.services.views import job_view
from gpufleet.store import operations
from gpufleet.store import schema as t

TRAIN = "python -m gpufleet.training.examples.digits --steps 120 --seed 5 --step-seconds 0.03"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Played]:
    with played(tmp_path / "home") as found:
        found.tick()
        yield found


@contextmanager
def controller(fleet: Played) -> Iterator[subprocess.Popen[bytes]]:
    """A real controller process."""
    log = (fleet.fleet.home / "controller.log").open("ab")
    env = {**fleet.environment, "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpufleet", "controller", "--every", "0.2"], env=env, stdout=log, stderr=log
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=20)
        log.close()


def view(fleet: Played, job: str) -> dict[str, Any]:
    return job_view(fleet.fleet, job)


def train(fleet: Played) -> str:
    return fleet.submit(
        command=TRAIN, pods=2, gpus=8, checkpoint_interval="1s", env={"GPUFLEET_PROGRESS_INTERVAL": "0.2"}
    )


def ended_well_once(fleet: Played, job: str, attempts: int) -> None:
    """Succeeded, with so many attempts, nothing left on the fleet, every allocation released once."""
    found = view(fleet, job)
    assert (found["state"], len(found["attempts"])) == ("succeeded", attempts), found
    eventually(lambda: not [p for p in fleet.sandbox.cluster().observe().pods if p.job == job] or fleet.tick())
    with fleet.fleet.database.read() as connection:
        events = list(connection.execute(select(t.usage_event.c.event).where(t.usage_event.c.job == job)).scalars())
    assert events.count("allocated") == events.count("released") == 16 * attempts


def is_saved(fleet: Played, job: str) -> Callable[[], bool]:
    return lambda: bool(view(fleet, job)["checkpoints"])


def test_the_controller_dies_and_another_takes_over(fleet: Played) -> None:
    with controller(fleet) as first:
        job = train(fleet)
        eventually(is_saved(fleet, job))
        first.send_signal(signal.SIGKILL)
        first.wait()
    with controller(fleet):
        # the dead one's leases run out by themselves; nobody has to know that it died
        eventually(lambda: view(fleet, job)["state"] == "succeeded", within=90)
    ended_well_once(fleet, job, attempts=1)


def test_the_sandbox_dies_under_a_running_job_and_finds_its_pods_again(fleet: Played) -> None:
    with controller(fleet):
        job = train(fleet)
        eventually(is_saved(fleet, job))
        fleet.sandbox.kill()
        fleet.sandbox.start()
        eventually(lambda: view(fleet, job)["state"] == "succeeded", within=60)
    ended_well_once(fleet, job, attempts=1)


def test_a_node_dies_without_notice_and_the_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    nodes = [{**WORLD["nodes"][0], "count": 3}]
    with played(tmp_path / "home", {**WORLD, "nodes": nodes}) as fleet, controller(fleet):
        job = train(fleet)
        eventually(is_saved(fleet, job))
        gone = view(fleet, job)["where"][0]["node"]
        fleet.sandbox.post("/v1/nodes/fail", node=gone)
        eventually(lambda: view(fleet, job)["state"] == "succeeded", within=60)
        found = view(fleet, job)
        assert gone not in {place["node"] for place in found["attempts"][1]["where"]}
        assert found["progress"]["base"]["step"] > 0
        ended_well_once(fleet, job, attempts=2)


def test_it_works_without_a_controller_when_only_callers_tick(fleet: Played) -> None:
    job = train(fleet)
    fleet.until(job, "succeeded", within=60)
    ended_well_once(fleet, job, attempts=1)


# ------------------------------------------------------------------ an executor dies around an effect


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt("killed here")


def test_killed_between_the_decision_and_the_launch_the_next_one_launches(fleet: Played) -> None:
    job = fleet.submit(gpus=1)
    run_pass(fleet.fleet)
    assert operation(fleet, job, "launch") == ("todo", 0)
    fleet.until(job, "running")
    assert len(pods(fleet, job)) == 1


def test_killed_after_the_launch_and_before_its_record_the_next_one_adopts(
    fleet: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fleet.submit(gpus=1)
    run_pass(fleet.fleet)
    with monkeypatch.context() as patch:
        patch.setattr(operations, "record_all", _die)
        with pytest.raises(KeyboardInterrupt):
            executor.apply_operations(fleet.fleet)
    assert operation(fleet, job, "launch") == ("leased", 1)
    assert len(pods(fleet, job)) == 1
    _let_leases_run_out(fleet)
    fleet.until(job, "running")
    assert operation(fleet, job, "launch") == ("done", 2)
    assert len(pods(fleet, job)) == 1


def test_a_stop_supersedes_a_launch_that_has_not_begun(fleet: Played) -> None:
    job = fleet.submit(gpus=1)
    run_pass(fleet.fleet)
    cancel_job(fleet.fleet, job, Principal("ada"))
    fleet.until(job, "cancelled")
    assert operation(fleet, job, "launch")[0] == "superseded"
    assert pods(fleet, job) == []


def test_a_late_result_of_an_executor_that_lost_its_lease_does_not_count(fleet: Played) -> None:
    job = fleet.submit(gpus=1)
    run_pass(fleet.fleet)
    now = fleet.fleet.clock.now()
    with fleet.fleet.database.write() as connection:
        (first,) = operations.lease(connection, now, token="first", length=timedelta(seconds=1), most=1)
        assert first is not None
        later = now + timedelta(seconds=5)
        (second,) = operations.lease(connection, later, token="second", length=timedelta(seconds=60), most=1)
        assert second is not None and second.id == first.id
        assert not operations.record(connection, first.id, "first", later, state="done")
        assert operations.record(connection, second.id, "second", later, state="done")
    assert operation(fleet, job, "launch") == ("done", 2)


def test_a_job_without_a_world_waits_and_starts_when_it_is_back(fleet: Played) -> None:
    fleet.sandbox.kill()
    job = fleet.submit(gpus=1)
    fleet.tick()
    assert view(fleet, job)["state"] in ("pending", "starting")
    fleet.sandbox.start()
    fleet.until(job, "running", within=30)
    assert len(pods(fleet, job)) == 1


def test_an_observation_of_a_gone_world_changes_nothing(fleet: Played) -> None:
    job = fleet.submit(gpus=1)
    fleet.until(job, "running")
    fleet.sandbox.kill()
    for _ in range(3):
        observe(fleet.fleet)
    assert view(fleet, job)["state"] == "running"
    fleet.sandbox.start()


def operation(fleet: Played, job: str, verb: str) -> tuple[str, int]:
    with fleet.fleet.database.read() as connection:
        query = select(t.operation).where(t.operation.c.name == operation_name(verb, job, 1))
        row = connection.execute(query).one()
        return row.state, row.tries


def pods(fleet: Played, job: str) -> list[str]:
    return [p.name for p in fleet.sandbox.cluster().observe().pods if p.job == job and not p.phase.is_over]


def _let_leases_run_out(fleet: Played) -> None:
    with fleet.fleet.database.write() as connection:
        past = fleet.fleet.clock.now() - timedelta(seconds=1)
        connection.execute(update(t.operation).where(t.operation.c.state == "leased").values(lease_until=past))
