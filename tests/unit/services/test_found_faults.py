"""Faults somebody found by trying, each as a test of its kind: nothing stuck, lost, doubled, or paid beyond the budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from tests.fleets import WORLD, Played, played
from tests.sandboxes import eventually

from gpufleet.errors import Invalid, NoCapacity, Permanent, Temporary
from gpufleet.model.policy import BuyingPolicy
from gpufleet.model.tenancy import Principal
from gpufleet.services import apply_operations as executor
from gpufleet.services.change_job import cancel_claim, cancel_job
from gpufleet.services.submit_job import Origin, claim_key
from gpufleet.services.views import fleet_view, job_view
from gpufleet.store import schema as t

ADA = Principal("ada")
OFFERING = {
    "name": "more", "region": "east", "zone": "z", "leaf": "z/l", "instance_type": "gpu8", "capacity": "spot", "model": "H100-80",
    "gpus": 8, "price": "10.00", "launch_delay": "200ms", "available": 8,
}  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Played]:
    with played(tmp_path / "home", {**WORLD, "offerings": [OFFERING]}) as found:
        found.tick()
        yield found


class Broken:
    """A world of which some calls raise; everything else is the real one."""

    def __init__(self, real: Any, **faults: Exception) -> None:
        self._real, self.faults = real, faults

    def __getattr__(self, name: str) -> Any:
        if name not in self.faults:
            return getattr(self._real, name)

        def fail(*_: object, **__: object) -> None:
            raise self.faults[name]

        return fail


def tries(number: int) -> Origin:
    return Origin("gpu_job", "run-1", "run", -1, number)


def with_policy(fleet: Played, **more: Any) -> Played:
    return replace(fleet, fleet=replace(fleet.fleet, buying=BuyingPolicy(**{"buy_after": timedelta(0), **more})))


def test_what_a_job_writes_of_itself_never_stops_the_look_at_others(fleet: Played) -> None:
    first = fleet.submit(gpus=1)
    fleet.until(first, "running")
    folder = fleet.fleet.home / "checkpoints" / first / "1"
    folder.mkdir(parents=True)
    told = {"version": 1, "job": first, "attempt": 1, "step": 10**20, "at": "2026-01-01T00:00:00Z"}
    (folder / "progress.json").write_text(json.dumps(told))
    second = fleet.submit(gpus=1)
    fleet.until(second, "running")
    cancel_job(fleet.fleet, first, ADA)
    fleet.until(first, "cancelled")


def test_a_stop_is_never_given_up(fleet: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MAX_TRIES", 1)
    job = fleet.submit(gpus=1)
    fleet.until(job, "running")
    real = fleet.fleet.clusters["sandbox"]
    fleet.fleet.clusters["sandbox"] = Broken(real, stop=Temporary("not now", retry_after=0.01))  # type: ignore[assignment]
    cancel_job(fleet.fleet, job, ADA)
    for _ in range(3):
        fleet.tick()
    fleet.fleet.clusters["sandbox"] = real
    fleet.until(job, "cancelled")


def test_a_clear_heard_after_the_old_try_was_ended_runs_the_job_again(fleet: Played) -> None:
    job = fleet.submit(origin=tries(1), gpus=1)
    fleet.until(job, "running")
    assert cancel_claim(fleet.fleet, tries(1), "its task was killed")
    assert fleet.state(job) == "stopping"
    assert fleet.submit(origin=tries(2), gpus=1) == job
    assert len(fleet.until(job, "running")["attempts"]) == 2


def test_a_fresh_job_that_ended_is_the_same_for_the_same_try_and_a_new_one_for_the_next(fleet: Played) -> None:
    job = fleet.submit(origin=tries(1), fresh=True, gpus=1, command="true")
    fleet.until(job, "succeeded")
    assert fleet.submit(origin=tries(1), fresh=True, gpus=1, command="true") == job
    assert fleet.submit(origin=tries(2), fresh=True, gpus=1, command="true") != job


def test_a_launch_that_can_never_work_ends_the_job(fleet: Played) -> None:
    real = fleet.fleet.clusters["sandbox"]
    fleet.fleet.clusters["sandbox"] = Broken(real, launch=Permanent("there is no such image"))  # type: ignore[assignment]
    job = fleet.submit(gpus=1)

    def ended() -> bool:
        _no_waiting(fleet)
        fleet.tick()
        return fleet.state(job) == "failed"

    eventually(ended)
    assert "no such image" in job_view(fleet.fleet, job)["detail"]
    assert len(job_view(fleet.fleet, job)["attempts"]) == fleet.fleet.recovery.max_failures


def _no_waiting(fleet: Played) -> None:
    with fleet.fleet.database.write() as connection:
        connection.execute(update(t.job).values(not_before=None))
        connection.execute(update(t.offering).values(not_before=None))


def test_a_waiting_job_says_when_it_is_tried_again(fleet: Played) -> None:
    real = fleet.fleet.clusters["sandbox"]
    fleet.fleet.clusters["sandbox"] = Broken(real, launch=Permanent("no"))  # type: ignore[assignment]
    job = fleet.submit(gpus=1)
    fleet.tick()
    assert "it is tried again at" in job_view(fleet.fleet, job)["detail"]


def test_use_ends_also_when_pods_vanish_without_a_word(fleet: Played) -> None:
    job = fleet.submit(gpus=8)
    fleet.until(job, "running")
    cluster = fleet.sandbox.cluster()
    cluster.stop(job, 1, grace=timedelta(0))
    eventually(lambda: all(p.phase.is_over for p in cluster.observe().pods if p.job == job))
    cluster.remove(job, 1)
    eventually(lambda: len(fleet.until(job, "running", "pending", "starting")["attempts"]) == 2)
    with fleet.fleet.database.read() as connection:
        query = (
            select(t.usage_event.c.event, func.count())
            .where(t.usage_event.c.attempt == 1)
            .group_by(t.usage_event.c.event)
        )
        assert dict(connection.execute(query).all()) == {"allocated": 8, "released": 8}  # type: ignore[arg-type]


# ------------------------------------------------------------------ buying


def machines(fleet: Played) -> int:
    return len(fleet_view(fleet.fleet)["instances"])


def test_purchases_that_are_still_open_count_against_the_budget(fleet: Played) -> None:
    rich = with_policy(fleet, max_hourly=15)
    real = fleet.fleet.clouds["sandbox"]
    fleet.fleet.clouds["sandbox"] = Broken(real, launch=Temporary("busy", retry_after=0.01))  # type: ignore[assignment]
    for priority in (10, 500, 900):
        rich.submit(gpus=8, capacity=["spot"], priority=priority)
        rich.tick()
    fleet.fleet.clouds["sandbox"] = real
    eventually(lambda: rich.tick() or machines(rich) >= 1)
    for _ in range(5):
        rich.tick()
    assert machines(rich) == 1


def test_a_purchase_that_failed_is_made_again_later(fleet: Played) -> None:
    rich = with_policy(fleet, max_hourly=100)
    real = fleet.fleet.clouds["sandbox"]
    fleet.fleet.clouds["sandbox"] = Broken(real, launch=NoCapacity("none left"))  # type: ignore[assignment]
    job = rich.submit(gpus=8, capacity=["spot"])
    rich.tick()
    fleet.fleet.clouds["sandbox"] = real
    _no_waiting(rich)
    rich.until(job, "running")
    with fleet.fleet.database.read() as connection:
        bought = connection.execute(select(func.count()).where(t.audit.c.action == "buy")).scalar_one()
    assert (machines(rich), bought) == (1, 2)


# ------------------------------------------------------------------ names


def test_a_topology_level_nobody_knows_is_refused(fleet: Played) -> None:
    with pytest.raises(Invalid, match="topology_required: 'leeaf' is not a topology level"):
        fleet.submit(pods=2, gpus=8, topology_required="leeaf")


def test_a_name_means_the_job_that_lives_and_a_letter_cancels_nothing(fleet: Played) -> None:
    old = fleet.submit(name="train", gpus=1, command="true")
    fleet.until(old, "succeeded")
    new = fleet.submit(name="train", gpus=1)
    with pytest.raises(Invalid, match="only the beginning of"):
        cancel_job(fleet.fleet, new[:-1], ADA)
    assert cancel_job(fleet.fleet, "train", ADA) == new


def test_two_task_instances_never_share_a_claim() -> None:
    assert claim_key("d/r", "x", "t", -1) != claim_key("d", "r/x", "t", -1)
