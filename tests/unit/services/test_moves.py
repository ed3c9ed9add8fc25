"""A move on a real fleet: the mover saves, stops and starts again elsewhere, and who waited gets the room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleets import WORLD, Played, played
from tests.sandboxes import eventually

from gpufleet.model.tenancy import Principal
from gpufleet.services.change_job import cancel_job

REAL_TIME = {**WORLD, "clock": {"factor": 1}}
"""A save is fresh for a quarter of an hour; in the quick world that is a second."""


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", REAL_TIME, database_url=database_url) as found:
        found.tick()
        yield found


def nodes_of(fleet: Played, job: str) -> set[str]:
    return {p.node for p in fleet.sandbox.cluster().observe().pods if p.job == job}


def test_a_small_job_makes_room_for_one_that_needs_a_whole_node(fleet: Played) -> None:
    first, second, small = (fleet.submit(gpus=gpus) for gpus in (6, 6, 2))
    for job in (first, second, small):
        fleet.until(job, "running")
    beside = nodes_of(fleet, small)
    leaver = first if nodes_of(fleet, first) == beside else second
    cancel_job(fleet.fleet, leaver, Principal("ada"))
    fleet.until(leaver, "cancelled")
    big = fleet.submit(gpus=8)
    fleet.until(big, "running", within=40)
    fleet.until(small, "running", within=40)
    eventually(lambda: (nodes_of(fleet, big) == beside and nodes_of(fleet, small) - beside) or fleet.tick(), within=20)
    assert nodes_of(fleet, big).isdisjoint(nodes_of(fleet, small))
