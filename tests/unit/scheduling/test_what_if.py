"""What a change would make different: the two plans compared, and what a change does to the fleet itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.builders import HOUR, NOW, node, nodes, on, pending, pods, queue, reasons, running, snapshot
from tests.laws import broken_laws

from gpufleet.model.hardware import NodeState
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import Change, Difference, what_if
from gpufleet.scheduling.what_if import changed

FULL = tuple(range(8))
KEPT: dict[str, Any] = {"preemptible": False}


def difference(fleet: Snapshot, **change: Any) -> Difference:
    """Of a change; the plan with it keeps the laws of every plan."""
    found = what_if(fleet, Change(**change), SchedulingPolicy(), NOW)
    assert broken_laws(found.snapshot, found.plan) == []
    return found


def test_no_change_makes_no_difference() -> None:
    fleet = snapshot(node(), running("r", on("n1", 0, 1)), pending("p", pods(gpus=2)), pending("q", pods(gpus=16)))
    assert difference(fleet).is_empty


def test_one_node_more_starts_what_waited() -> None:
    fleet = snapshot(node(), queue("a", 16), running("r", on("n1", *FULL), **KEPT), pending("p", pods(gpus=8)))
    found = difference(fleet, add_nodes=(node("n2"),))
    assert [p.job for p in found.starts] == ["p"]
    assert [(w.job, str(w.before.reason) if w.before else "", w.after) for w in found.waiting] == [
        ("p", "not-enough", None)
    ]
    assert [r.for_job for r in found.capacity_requests.removed] == ["p"] and not found.capacity_requests.added


def test_one_node_less_puts_its_work_back_and_starts_no_more_there() -> None:
    fleet = snapshot(*nodes(2), running("gang", on("n0", *FULL), on("n1", 0)), pending("p", pods(gpus=7)))
    found = difference(fleet, remove_nodes=("n0",))
    (back,) = found.requeued
    assert (back.job, back.nodes, back.restarts) == ("gang", ("n0", "n1"), None)
    assert reasons(found.plan) == {"gang": "too-large"}
    assert [(e.job, e.before.pods[0].gpus[0], e.after.pods[0].gpus[0]) for e in found.elsewhere] == [("p", 1, 0)]
    assert [r.job.id for r in found.snapshot.running] == []


def test_work_put_back_may_start_again_elsewhere() -> None:
    fleet = snapshot(*nodes(2), running("r", on("n0", 0, 1)))
    (back,) = difference(fleet, remove_nodes=("n0",)).requeued
    assert back.restarts is not None and {p.node for p in back.restarts.pods} == {"n1"}


def test_a_lost_node_is_like_one_that_is_removed_and_a_cordoned_one_keeps_its_work() -> None:
    fleet = snapshot(*nodes(2), running("r", on("n0", *FULL)), running("k", on("n1", *FULL)), pending("p"))
    assert [r.job for r in difference(fleet, node_states=(("n0", NodeState.LOST),)).requeued] == ["r"]
    assert difference(fleet, node_states=(("n0", NodeState.CORDONED),)).requeued == ()


def test_a_node_taken_out_of_service_starts_nothing() -> None:
    fleet = snapshot(*nodes(2), pending("p", pods(gpus=8)))
    found = difference(fleet, node_states=(("n0", NodeState.CORDONED),))
    assert [(e.job, e.before.pods[0].node, e.after.pods[0].node) for e in found.elsewhere] == [("p", "n0", "n1")]
    both = difference(fleet, node_states=(("n0", NodeState.CORDONED), ("n1", NodeState.RECLAIMING)))
    assert [p.job for p in both.no_longer_starts] == ["p"] and reasons(both.plan) == {"p": "unhealthy"}


def test_a_quota_that_is_raised_brings_a_reclaim() -> None:
    fleet = snapshot(
        node(), queue("a", 0), queue("b", 0), running("lent", on("n1", *FULL), queue="a"),
        pending("p", pods(gpus=8), queue="b"),
    )  # fmt: skip
    found = difference(fleet, queues=(queue("b", 8),))
    assert [p.job for p in found.starts] == ["p"]
    assert [(e.job, e.for_job, e.why) for e in found.evictions.added] == [("lent", "p", "reclaim")]
    back = difference(replace(fleet, queues=(queue("a", 0), queue("b", 8))), queues=(queue("b", 0),))
    assert [e.job for e in back.evictions.removed] == ["lent"] and [p.job for p in back.no_longer_starts] == ["p"]


def test_a_new_queue_takes_jobs_at_once() -> None:
    fleet = snapshot(node(), queue("a", 4))
    found = difference(fleet, queues=(queue("new", 4),), submit=(pending("p", pods(gpus=4), queue="new"),))
    assert [p.job for p in found.starts] == ["p"]


def test_a_submitted_job_that_goes_first_moves_others_down_the_line() -> None:
    fleet = snapshot(node(), running("r", on("n1", *FULL), priority=90, **KEPT), pending("p"), pending("q"))
    found = difference(fleet, submit=(pending("urgent", priority=80),))
    assert [(w.job, w.before and w.before.position, w.after and w.after.position) for w in found.waiting] == [
        ("urgent", None, 1), ("p", 1, 2), ("q", 2, 3)
    ]  # fmt: skip


def test_a_submitted_job_may_take_the_place_of_another() -> None:
    fleet = snapshot(node(), pending("p", pods(gpus=8)))
    found = difference(fleet, submit=(pending("urgent", pods(gpus=8), priority=80),))
    assert ([p.job for p in found.starts], [p.job for p in found.no_longer_starts]) == (["urgent"], ["p"])


def test_a_cancelled_job_is_gone_whether_it_runs_or_waits() -> None:
    fleet = snapshot(
        node(), running("r", on("n1", *FULL), **KEPT), pending("p", pods(gpus=8)), pending("q", pods(gpus=16))
    )
    found = difference(fleet, cancel=("r", "q"))
    assert found.cancelled == ("q", "r") and [p.job for p in found.starts] == ["p"]
    assert found.plan.waiting == ()


def test_a_cancelled_name_is_free_for_another_job() -> None:
    fleet = snapshot(node(), pending("p", pods(gpus=16)))
    found = difference(fleet, cancel=("p",), submit=(pending("p", pods(gpus=8)),))
    assert [p.job for p in found.starts] == ["p"]


def test_a_move_that_is_needed_no_more() -> None:
    fleet = snapshot(
        *nodes(2), running("r", on("n0", 0), saved=2), running("k", on("n1", *range(4)), **KEPT),
        pending("p", pods(gpus=8)),
    )  # fmt: skip
    found = difference(fleet, add_nodes=(node("n2"),))
    assert [m.job for m in found.moves.removed] == ["r"]
    assert [(e.job, e.after.pods[0].node) for e in found.elsewhere] == [("p", "n2")]


def test_who_is_leaving_anyway_is_not_put_back() -> None:
    fleet = snapshot(*nodes(2), running("r", on("n0", 0), leaving=True))
    found = difference(fleet, remove_nodes=("n0",))
    assert found.requeued == () and found.snapshot.running == () and found.snapshot.pending == ()


def test_instances_outlive_the_work_that_used_them() -> None:
    """Only `r` ends; its slice stays cut, so that nobody plans to cut it again."""
    fleet = snapshot(*nodes(2), running("r", on("n0", slices=["3:1g.10gb@6"]), on("n1", 0)))
    after = changed(fleet, Change(remove_nodes=("n1",)))
    assert [str(i) for d in after.nodes[0].devices for i in d.instances] == ["1g.10gb@6"]


def test_a_job_put_back_asks_for_the_model_it_had() -> None:
    fleet = snapshot(node("h"), node("t", model="T4-16", gpus=4), running("r", on("h", 0), hours=2))
    after = changed(fleet, Change(remove_nodes=("h",)))
    (again,) = after.pending
    assert again.job.models == ("H100-80",) and again.job.submitted_at == NOW - 2 * HOUR
