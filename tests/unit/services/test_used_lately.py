"""What a queue used lately counts on a real fleet, where the owner wants it to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleets import WORLD, Played, played
from tests.sandboxes import eventually

from gpufleet.model.snapshot import Snapshot
from gpufleet.model.tenancy import Principal
from gpufleet.services.change_job import cancel_job
from gpufleet.services.frozen import frozen
from gpufleet.services.run_pass import run_pass


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", WORLD, database_url=database_url) as found:
        found.tick()
        yield found


def seen(fleet: Played, weight: float) -> Snapshot:
    scheduling = replace(fleet.fleet.scheduling, usage_weight=weight)
    with fleet.fleet.database.read() as connection:
        return frozen(connection, replace(fleet.fleet, scheduling=scheduling), fleet.fleet.clock.now())


def lately(fleet: Played, weight: float = 1.0) -> dict[str, float]:
    return {q.name: q.used_lately for q in seen(fleet, weight).queues if q.used_lately}


def test_use_counts_while_it_lasts_and_after_it_has_ended_but_only_where_it_is_weighed(fleet: Played) -> None:
    assert lately(fleet) == {}
    whole, share = fleet.submit(gpus=8), fleet.submit("lin", share=0.5, memory_gib=10)
    for job in (whole, share):
        fleet.until(job, "running")
    queue = next(r.job.queue for r in seen(fleet, 0).running if r.job.id == whole)
    eventually(lambda: len(lately(fleet)) == 2, within=20)
    early = lately(fleet)
    assert max(early, key=lambda name: early[name]) == queue
    assert lately(fleet, weight=0) == {}
    cancel_job(fleet.fleet, whole, Principal("ada"))
    fleet.until(whole, "cancelled")
    assert lately(fleet)[queue] > 0


def test_a_pass_with_weighed_use_starts_what_fits(fleet: Played) -> None:
    weighed = replace(fleet.fleet, scheduling=replace(fleet.fleet.scheduling, usage_weight=1.0))
    job = fleet.submit(gpus=1)
    assert [p.job for p in run_pass(weighed).placements] == [job]
