"""Jobs that are to be done by some instant: on spot as long as it is safe, then off it. A real sandbox, both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fleets import Played, played
from tests.sandboxes import eventually

from gpufleet.model.policy import BuyingPolicy
from gpufleet.procurement.guards import Guards
from gpufleet.services.gang import gang_specs
from gpufleet.store import jobs, world
from gpufleet.store import schema as t

SPOT = {
    "name": "spot-east", "region": "east", "zone": "z", "leaf": "l", "instance_type": "gpu8", "capacity": "spot",
    "model": "H100-80", "gpus": 8, "price": "12.00", "launch_delay": "200ms", "available": 4,
}  # fmt: skip
STAYS = {**SPOT, "name": "steady-east", "capacity": "on-demand", "price": "98.00"}
NODE = {"name": "n0", "model": "A100-80", "gpus": 8, "position": ["z", "l"], "capacity": "reserved", "region": "east"}
WORLD = {"version": 1, "levels": ["zone", "leaf"], "nodes": [NODE], "offerings": [SPOT, STAYS]}
ONLY_SPOT = {**WORLD, "offerings": [SPOT]}


@pytest.fixture
def world_file() -> dict[str, Any]:
    return WORLD


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, world_file: dict[str, Any]) -> Iterator[Played]:
    with played(tmp_path / "home", world_file, database_url=database_url) as found:
        found.tick()
        buying = BuyingPolicy(buy_after=timedelta(0), idle_for=timedelta(minutes=10), max_hourly=200)
        yield replace(found, fleet=replace(found.fleet, buying=buying, guards=Guards(dry_run=False)))


def due(fleet: Played, *, after: timedelta) -> str:
    """A gang with two hours of work, to be done so long after now."""
    deadline = (fleet.fleet.clock.now() + after).isoformat()
    return fleet.submit(gpus=8, models=["H100-80"], runtime="2h", deadline=deadline)


def bought(fleet: Played) -> list[str]:
    with fleet.fleet.database.read() as connection:
        return sorted(i.offering for i in world.instances(connection))


def runs_on(fleet: Played, job: str) -> set[str]:
    def look() -> set[str]:
        fleet.tick()
        return {p.node for p in fleet.sandbox.cluster().observe().pods if p.job == job and p.phase == "running"}

    return eventually(look, within=30)


def test_with_time_to_spare_it_runs_on_spot(fleet: Played) -> None:
    runs_on(fleet, due(fleet, after=timedelta(hours=9)))
    assert bought(fleet) == ["spot-east"]


def test_with_none_to_spare_only_what_stays_is_bought_for_it(fleet: Played) -> None:
    runs_on(fleet, due(fleet, after=timedelta(hours=2, minutes=20)))
    assert bought(fleet) == ["steady-east"]


@pytest.mark.parametrize("world_file", [ONLY_SPOT], ids=["nothing but spot on sale"])
def test_where_there_is_nothing_else_spot_is_better_than_nothing(fleet: Played) -> None:
    runs_on(fleet, due(fleet, after=timedelta(hours=2, minutes=20)))
    assert bought(fleet) == ["spot-east"]


def test_once_another_interruption_could_not_be_made_good_it_leaves_spot(fleet: Played) -> None:
    job = due(fleet, after=timedelta(hours=9))
    (spot,) = runs_on(fleet, job)
    _deadline_comes_near(fleet, job, timedelta(hours=2, minutes=10))
    eventually(lambda: fleet.tick() or "steady-east" in bought(fleet), within=30)
    (now,) = eventually(lambda: (on := runs_on(fleet, job)) != {spot} and on, within=40)
    assert now != spot
    with fleet.fleet.database.read() as connection:
        first = jobs.attempts(connection, job)[0]
    assert "leaves spot to keep its deadline" in str(first)


def _deadline_comes_near(fleet: Played, job: str, left: timedelta) -> None:
    with fleet.fleet.database.write() as connection:
        row = jobs.get(connection, job)
        assert row is not None
        sooner = replace(row.job, deadline=fleet.fleet.clock.now() + left)
        from gpufleet.store.codec import dump_job

        connection.execute(t.job.update().where(t.job.c.id == job).values(spec=dump_job(sooner)))


class TestHowOftenItSaves:
    def interval(self, fleet: Played, job: str) -> str:
        with fleet.fleet.database.read() as connection:
            (spec,) = gang_specs(connection, fleet.fleet, [(job, 1)]).values()
        return dict(spec.pods[0].container.env)["GPUFLEET_CHECKPOINT_INTERVAL"]  # type: ignore[union-attr]

    def told(self, fleet: Played, job: str, seconds: float) -> None:
        save = {"step": 10, "at": datetime.now().astimezone().isoformat(), "seconds": seconds, "bytes": 1}
        with fleet.fleet.database.write() as connection:
            jobs.change(connection, job, progress={"step": 10, "last_save": save})

    def test_as_asked_until_it_told_how_long_a_save_takes(self, fleet: Played) -> None:
        job = due(fleet, after=timedelta(hours=9))
        runs_on(fleet, job)
        assert self.interval(fleet, job) == "600"

    def test_on_spot_more_often_where_saves_are_quick(self, fleet: Played) -> None:
        job = due(fleet, after=timedelta(hours=9))
        runs_on(fleet, job)
        self.told(fleet, job, 2.0)
        assert 60 <= float(self.interval(fleet, job)) < 300
        self.told(fleet, job, 0.1)
        assert self.interval(fleet, job) == "60"
        self.told(fleet, job, 300.0)
        assert self.interval(fleet, job) == "600", "its own interval is the most"

    def test_on_what_stays_as_it_was_asked(self, fleet: Played) -> None:
        job = due(fleet, after=timedelta(hours=2, minutes=20))
        runs_on(fleet, job)
        self.told(fleet, job, 2.0)
        assert self.interval(fleet, job) == "600"
