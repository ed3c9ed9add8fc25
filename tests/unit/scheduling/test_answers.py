"""What a waiting team is told: reasons, positions, explanations, and whether a job could ever run."""

from __future__ import annotations

import pytest
from tests.builders import MINUTE, NOW, job, node, nodes, on, pending, plan_of, pods, queue, running, snapshot

from gpufleet.errors import NotFound
from gpufleet.model.plan import Fit, Unfit
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.workload import Job, Needs
from gpufleet.scheduling import ACTIONS, check_job, explain
from gpufleet.units import mib

FULL = tuple(range(8))
FLEET = snapshot(*nodes(2), node("t", model="T4-16", gpus=4))

NEVER = {
    "no card of the model": (job("j", models=("B200-180",)), "no-such-model", "B200-180"),
    "no card with so much memory": (job("j", needs=Needs(mib(100))), "memory", "80 GiB"),
    "no card new enough": (job("j", needs=Needs(compute_capability=(10, 0))), "no-such-model", "9.0"),
    "a pod larger than any node": (job("j", pods(gpus=16)), "too-large", "8"),
    "a gang larger than all nodes of a model": (job("j", pods(3, gpus=8)), "too-large", "16"),
    "a slice with more memory than any": (job("j", pods(slice_gib=100)), "memory", "79"),
    "a slice on cards that have none": (job("j", pods(slice_gib=4), models=("T4-16",)), "no-such-model", "T4-16"),
    "a share with more memory than a card": (job("j", pods(share="200/100")), "memory", "80"),
    "a kind of capacity nobody has": (job("j", capacity=["spot"]), "capacity-type", "spot"),
    "more media slices than cards": (job("j", pods(99, profile="1g.10gb+me")), "too-large", "16"),
}


@pytest.mark.parametrize(("asked", "reason", "word"), NEVER.values(), ids=NEVER)
def test_what_can_never_run(asked: Job, reason: str, word: str) -> None:
    found = check_job(FLEET, asked)
    assert isinstance(found, Unfit) and found.reason == reason and word in found.detail


def test_what_could_run_on_an_empty_fleet_fits_though_it_is_busy() -> None:
    busy = snapshot(node(), running("r", on("n1", *FULL)))
    assert check_job(busy, job("j", pods(gpus=8))) == Fit()


def test_places_in_the_line_follow_priority_and_age() -> None:
    plan = plan_of(
        node(), queue("a", 8), queue("b", 8), running("r", on("n1", *FULL), priority=90),
        pending("third"), pending("second", age=50 * MINUTE), pending("first", priority=70),
        pending("other", pods(gpus=16), queue="b"),
    )  # fmt: skip
    assert [(w.job, w.queue_position) for w in plan.waiting if w.job != "other"] == [
        ("first", 1), ("second", 2), ("third", 3)
    ]  # fmt: skip
    assert [w.position for w in plan.waiting] == [1, 2, 3, 4]


def test_a_broken_gpu_is_named_as_the_cause() -> None:
    plan = plan_of(node(unhealthy=[3]), pending("all", pods(gpus=8), priority=60), pending("six", pods(gpus=6)))
    (entry,) = plan.waiting
    assert (entry.job, str(entry.reason)) == ("all", "unhealthy") and "7" in entry.detail


def test_host_cpu_is_named_as_the_cause() -> None:
    plan = plan_of(node(cpu=96.0), *(pending(f"p{i}", pods(cpu=48)) for i in range(3)))
    assert [str(w.reason) for w in plan.waiting] == ["host-resources"]


def test_only_what_more_hardware_would_cure_asks_for_capacity() -> None:
    plan = plan_of(
        node(), queue("a", 8, limit=8), queue("b", 8), pending("over", pods(2, gpus=8)),
        pending("large", pods(9, gpus=8), queue="b"),
    )  # fmt: skip
    assert [r.for_job for r in plan.capacity_requests] == ["large"]


def test_explain_answers_level_by_level_and_names_what_would_help() -> None:
    fleet = snapshot(
        *nodes(2), running("r0", on("n0", *FULL), preemptible=False, saved=30),
        running("r1", on("n1", *range(7)), preemptible=False, saved=5), pending("p", pods(gpus=4)),
    )  # fmt: skip
    found = explain(fleet, SchedulingPolicy(), NOW, "p")
    assert (found.state, found.position, str(found.reason)) == ("pending", 1, "not-enough")
    assert next((a.level, a.best, a.fits) for a in found.levels) == ("node", 0, False)
    assert "r1" in found.unblock and "5 min" in found.unblock


def test_explain_knows_running_and_starting_jobs_and_no_others() -> None:
    fleet = snapshot(node(), running("r", on("n1", 0)), pending("p"))
    assert explain(fleet, SchedulingPolicy(), NOW, "r").state == "running"
    assert explain(fleet, SchedulingPolicy(), NOW, "p").state == "starting"
    with pytest.raises(NotFound, match="ghost"):
        explain(fleet, SchedulingPolicy(), NOW, "ghost")


def test_a_placement_waits_for_exactly_those_whose_place_it_takes() -> None:
    plan = plan_of(
        *nodes(2), running("low", on("n0", *FULL), priority=10), pending("now", pods(gpus=8), priority=70),
        pending("later", pods(gpus=8), priority=60),
    )  # fmt: skip
    assert {p.job: p.after for p in plan.placements} == {"now": (), "later": ("low",)}


def test_places_of_who_is_leaving_are_given_on_with_the_wait() -> None:
    plan = plan_of(node(), running("r", on("n1", *FULL), leaving=True), pending("p", pods(gpus=8)))
    assert [(p.job, p.after) for p in plan.placements] == [("p", ("r",))] and not plan.evictions


def test_the_actions_are_one_visible_list_least_disruptive_first() -> None:
    assert [a.__name__ for a in ACTIONS] == ["allocate", "backfill", "consolidate", "reclaim", "preempt", "net_gain"]
