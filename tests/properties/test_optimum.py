"""On small fleets the planner is measured against trying everything."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from tests.builders import NOW
from tests.properties.fleets import little
from tests.properties.optimum import fits, most, most_in_order

from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import run_pass

POLICY = SchedulingPolicy()
AS_GOOD_AS = 0.97


@given(little(jobs=1))
def test_a_single_gang_that_fits_in_any_way_starts(fleet: Snapshot) -> None:
    plan = run_pass(fleet, POLICY, NOW)
    assert bool(plan.placements) == fits(fleet, fleet.pending[0].job)


@dataclass
class Score:
    """Jobs placed over all examples: ours, the most there could be, the most without passing anybody over."""

    ours: int = 0
    most: int = 0
    in_order: int = 0


def test_nearly_as_many_jobs_start_as_could_by_any_choice() -> None:
    score = Score()

    @given(little(jobs=3))
    def compare(fleet: Snapshot) -> None:
        jobs = [p.job for p in sorted(fleet.pending, key=lambda p: p.job.id)]
        score.ours += len(run_pass(fleet, POLICY, NOW).placements)
        score.most += most(fleet, jobs)
        score.in_order += most_in_order(fleet, jobs)

    compare()
    assert score.ours >= AS_GOOD_AS * score.most, score
    assert score.ours >= AS_GOOD_AS * score.in_order, score
