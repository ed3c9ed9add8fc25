"""Whatever the fleet: every waiting job gets an answer, its gates agree with its reason, and no way is a lie."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from tests.builders import NOW
from tests.properties.fleets import fleets

from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import Change, explain, run_pass, what_if
from gpufleet.scheduling.checks import LEVEL_OF

POLICY = SchedulingPolicy()
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=SLOW)
@given(fleets())
def test_answers_hold(fleet: Snapshot) -> None:
    for entry in run_pass(fleet, POLICY, NOW).waiting[:2]:
        found = explain(fleet, POLICY, NOW, entry.job)
        assert (found.reason, found.position) == (entry.reason, entry.position)
        assert [c.detail for c in found.checks if c.level == LEVEL_OF[entry.reason] and not c.ok] == [entry.detail]
        for option in found.options:
            if option.change is not None and option.at is None:
                plan = what_if(fleet, option.change, POLICY, NOW).plan
                assert entry.job in {p.job for p in plan.placements}, option.detail


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=SLOW)
@given(fleets())
def test_a_change_that_changes_nothing_makes_no_difference(fleet: Snapshot) -> None:
    assert what_if(fleet, Change(), POLICY, NOW).is_empty
    same = Change(queues=fleet.queues, node_states=tuple((n.name, n.state) for n in fleet.nodes if n.state == "ready"))
    assert what_if(fleet, same, POLICY, NOW).is_empty
