"""A gang whose first pod asks for other GPUs than its workers, on a real fleet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleets import WORLD, Played, played

from gpufleet.errors import Invalid
from gpufleet.store.places import places_of


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", WORLD, database_url=database_url) as found:
        found.tick()
        yield found


def test_the_leader_gets_its_own_and_each_worker_its_own(fleet: Played) -> None:
    job = fleet.submit(pods=3, gpus=4, leader_gpus=1)
    fleet.until(job, "running")
    with fleet.fleet.database.read() as connection:
        held = places_of(connection, job, 1)
    assert [(p.rank, p.pod_set, len(p.gpus)) for p in held] == [(0, 0, 1), (1, 1, 4), (2, 1, 4)]
    assert sorted(p.rank for p in fleet.sandbox.cluster().observe().pods if p.job == job) == [0, 1, 2]


def test_a_leader_larger_than_any_node_is_refused_by_name(fleet: Played) -> None:
    with pytest.raises(Invalid, match="leader_gpus: a pod asks for 16 GPUs, the largest node has 8"):
        fleet.submit(pods=3, gpus=4, leader_gpus=16)
