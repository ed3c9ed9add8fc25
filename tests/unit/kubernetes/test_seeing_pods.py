"""Pods of ours as the API shows them, read into phase, exit code, reason and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpufleet.clusters.base import Phase, PodSeen
from gpufleet.clusters.kubernetes.seeing.pods import PodFact, ended_once, pod_fact, with_node

Raw = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def raw_pod(
    phase: str = "Running",
    state: Raw | None = None,
    *,
    node: str = "n1",
    deleted: float | None = None,
    grace: int = 30,
    annotations: Raw | None = None,
    conditions: tuple[Raw, ...] = (),
    **status: Any,
) -> Raw:
    """Bound at noon. `deleted` is when it was asked to leave, in seconds after noon."""
    metadata: Raw = {
        "name": "job-1-1-0",
        "namespace": "team-a",
        "uid": "u",
        "labels": {"gpufleet.io/job": "job-1", "gpufleet.io/attempt": "1", "gpufleet.io/rank": "0"},
        "annotations": annotations or {},
        "finalizers": ["gpufleet.io/observed"],
    }
    if deleted is not None:
        metadata |= {"deletionTimestamp": at(deleted + grace), "deletionGracePeriodSeconds": grace}
    bound = ({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)},) if node else ()
    statuses = [{"name": "main", "state": state}] if state else []
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {"affinity": pinned("n1")},
        "status": {"phase": phase, "conditions": [*bound, *conditions], "containerStatuses": statuses, **status},
    }


def pinned(node: str) -> Raw:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def ended(code: int, reason: str = "Error", *, finished: float = 20) -> Raw:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at(2), "finishedAt": at(finished)}}


def waits(reason: str, message: str = "") -> Raw:
    return {"waiting": {"reason": reason, "message": message}}


def fact(raw: Raw) -> PodFact:
    found = pod_fact(raw)
    assert found is not None
    return found


def seen(raw: Raw) -> PodSeen:
    return fact(raw).seen


RUNS = {"running": {"startedAt": at(2)}}
STOP = "gpufleet.io/stop"
PUT_OUT = ({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},)


@pytest.mark.parametrize(
    ("raw", "phase", "code", "reason"),
    [
        (raw_pod("Running", RUNS), Phase.RUNNING, None, ""),
        (raw_pod("Succeeded", ended(0, "Completed")), Phase.SUCCEEDED, 0, ""),
        (raw_pod("Failed", ended(7)), Phase.FAILED, 7, ""),
        (raw_pod("Failed", ended(137, "OOMKilled")), Phase.FAILED, 137, "host-memory"),
        (raw_pod("Failed", ended(128, "StartError")), Phase.FAILED, 128, "start"),
        (raw_pod("Pending", waits("ContainerCreating")), Phase.PENDING, None, ""),
        (
            raw_pod("Pending", waits("ImagePullBackOff", "not found")),
            Phase.PENDING,
            None,
            "ImagePullBackOff: not found",
        ),
        (raw_pod("Pending", waits("InvalidImageName", "bad")), Phase.FAILED, None, "start"),
        (raw_pod("Unknown", RUNS), Phase.RUNNING, None, ""),
        (raw_pod("Failed", reason="Evicted"), Phase.FAILED, None, "evicted"),
        (raw_pod("Failed", ended(143), reason="Evicted"), Phase.FAILED, 143, "evicted"),
        (raw_pod("Failed", reason="UnexpectedAdmissionError"), Phase.FAILED, None, "evicted"),
        (raw_pod("Failed", reason="NodeShutdown"), Phase.FAILED, None, "node-lost"),
        (raw_pod("Failed", ended(0), conditions=PUT_OUT), Phase.FAILED, 0, "evicted"),
    ],
    ids=lambda value: (
        None if not isinstance(value, dict) else str(value["status"].get("reason") or value["status"]["phase"])
    ),
)
def test_how_it_is(raw: Raw, phase: Phase, code: int | None, reason: str) -> None:
    pod = seen(raw)
    assert (pod.phase, pod.exit_code, pod.reason) == (phase, code, reason)


class TestAskedToLeave:
    def test_it_is_evicted_whatever_its_exit_code(self) -> None:
        for code in (0, 143, 1):
            pod = seen(raw_pod("Succeeded" if code == 0 else "Failed", ended(code), deleted=15))
            assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, code, "evicted")

    def test_in_the_same_second_as_its_end_the_end_is_not_believed(self) -> None:
        assert seen(raw_pod("Succeeded", ended(0), deleted=20)).reason == "evicted"

    def test_what_was_over_before_keeps_its_end(self) -> None:
        pod = seen(raw_pod("Succeeded", ended(0), deleted=21, grace=0))
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.SUCCEEDED, 0, "")

    @pytest.mark.parametrize("behind", [0.001, 1, 5])
    @pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 143)])
    def test_by_us_its_node_s_clock_may_be_behind(self, phase: str, code: int, behind: float) -> None:
        pod = seen(raw_pod(phase, ended(code, finished=20 - behind), deleted=20, annotations={STOP: at(20)}))
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, code, "evicted")

    def test_by_us_the_kubelet_may_take_its_time_to_let_go_of_it(self) -> None:
        raw = raw_pod("Succeeded", ended(0, finished=21), deleted=300, grace=0, annotations={STOP: at(20)})
        assert (seen(raw).phase, seen(raw).reason) == (Phase.FAILED, "evicted")

    def test_by_us_long_after_its_end_it_keeps_its_end(self) -> None:
        pod = seen(raw_pod("Succeeded", ended(0, finished=20), deleted=26, annotations={STOP: at(26)}))
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.SUCCEEDED, 0, "")

    def test_its_end_stays_as_it_was_told_first(self) -> None:
        told = fact(raw_pod("Failed", ended(143), deleted=15))
        later = fact(raw_pod("Failed", ended(143), deleted=60, grace=0))
        assert (told.seen.reason, later.seen.reason) == ("evicted", "")
        kept = ended_once(told, later)
        assert (kept.seen, kept.confirmed) == (told.seen, True)

    def test_until_its_exit_code_is_told_its_end_is_not_final(self) -> None:
        forced = fact(raw_pod("Running", RUNS, deleted=15, grace=0))
        assert ended_once(forced, later := fact(raw_pod("Failed", ended(143), deleted=15))) == later

    def test_while_it_saves_it_still_runs(self) -> None:
        assert seen(raw_pod("Running", RUNS, deleted=15)).phase is Phase.RUNNING

    def test_before_it_had_a_node_it_is_over_at_once(self) -> None:
        pod = seen(raw_pod("Pending", node="", deleted=15))
        assert (pod.phase, pod.reason, pod.node, pod.bound_at) == (Phase.FAILED, "evicted", "n1", None)

    def test_forced_it_is_over_though_nobody_told_its_end(self) -> None:
        pod = seen(raw_pod("Running", RUNS, deleted=15, grace=0))
        assert (pod.phase, pod.exit_code, pod.reason) == (Phase.FAILED, None, "evicted")


class TestTimes:
    def test_from_bound_to_finished_by_the_cluster(self) -> None:
        pod = seen(raw_pod("Succeeded", ended(0)))
        assert (pod.bound_at, pod.started_at, pod.finished_at) == tuple(NOON + timedelta(seconds=s) for s in (0, 2, 20))

    def test_a_node_whose_clock_is_behind_never_ends_a_pod_before_it_began(self) -> None:
        pod = seen(raw_pod("Succeeded", ended(0, finished=-300)))
        assert pod.bound_at and pod.started_at and pod.finished_at
        assert pod.bound_at <= pod.started_at <= pod.finished_at

    def test_gated_it_is_nowhere_and_costs_nothing(self) -> None:
        raw = raw_pod(
            "Pending", node="", conditions=({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},)
        )
        raw["spec"]["schedulingGates"] = [{"name": "gpufleet.io/gang"}]
        found = fact(raw)
        assert (found.gated, found.seen.bound_at, found.seen.reason, found.seen.node) == (True, None, "", "n1")


def test_the_scheduler_s_words_without_what_every_pinned_pod_has() -> None:
    message = (
        "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
        "no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = seen(raw_pod("Pending", node="", conditions=(condition,)))
    assert pod.reason == "0/5 nodes are available: 1 Insufficient nvidia.com/gpu"


class TestItsNode:
    def test_with_its_node_a_pod_is_lost(self) -> None:
        pod = with_node(fact(raw_pod("Running", RUNS)), node_is_lost=True, cluster_time=NOON + timedelta(minutes=1))
        assert (pod.phase, pod.reason, pod.finished_at) == (Phase.LOST, "node-lost", NOON + timedelta(minutes=1))

    def test_what_had_ended_stays_as_it_ended(self) -> None:
        done = fact(raw_pod("Succeeded", ended(0)))
        assert with_node(done, node_is_lost=True, cluster_time=NOON).phase is Phase.SUCCEEDED

    def test_a_pod_that_no_kubelet_ends_is_not_waited_for_for_ever(self) -> None:
        hangs = fact(raw_pod("Running", RUNS, deleted=10, grace=30))
        for seconds, want in ((40, Phase.RUNNING), (160, Phase.RUNNING), (161, Phase.LOST)):
            now = NOON + timedelta(seconds=seconds)
            assert with_node(hangs, node_is_lost=False, cluster_time=now).phase is want


def test_a_replica_tells_its_address() -> None:
    raw = raw_pod("Running", RUNS, podIP="10.0.0.7")
    raw["spec"]["containers"] = [{"name": "main", "ports": [{"name": "serve", "containerPort": 20_100}]}]
    assert seen(raw).address == "10.0.0.7:20100"


def test_a_job_whose_name_is_no_label_is_known_by_its_annotation() -> None:
    assert seen(raw_pod(annotations={"gpufleet.io/job-id": "Ünlike ly"})).job == "Ünlike ly"


@pytest.mark.parametrize("missing", ["gpufleet.io/job", "gpufleet.io/attempt", "gpufleet.io/rank"])
def test_a_pod_that_does_not_say_what_it_is_is_no_pod_of_an_attempt(missing: str) -> None:
    raw = raw_pod()
    del raw["metadata"]["labels"][missing]
    assert pod_fact(raw) is None
