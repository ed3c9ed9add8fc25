"""How much capacity is wanted when: from jobs, their limits and deadlines, and what ran in past weeks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.model.capacity import CapacityType
from gpufleet.model.snapshot import Pending, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job, Kind, PodSet, Share, Slice, Whole
from gpufleet.procurement.demand import HOURS, Class, DemandPolicy, Promise, Ran, Wanted, demand, gpus_of, quantile
from gpufleet.units import GpuAmount

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
MODEL = "H100-80"
POLICY = DemandPolicy()


def job(name: str, *, gpus: int = 8, pods: int = 1, **more: object) -> Job:
    sets = (PodSet(pods, Whole(gpus)),)
    told = {"kind": Kind.TRAINING, "runtime": 3 * HOUR, "models": (MODEL,), **more}
    return Job(name, "vision", "digits", "vision", pod_sets=sets, submitted_at=MONDAY, **told)  # type: ignore[arg-type]


def seen(*pending: Job, running: tuple[tuple[Job, timedelta], ...] = (), limit: int | None = None) -> Snapshot:
    bound = () if limit is None else (("*", GpuAmount.of(limit)),)
    return Snapshot(
        at=MONDAY,
        levels=(),
        nodes=(),
        queues=(Queue("root", limit=bound), Queue("vision", "root")),
        running=tuple(Running(j, (), MONDAY - ago) for j, ago in running),
        pending=tuple(map(Pending, pending)),
    )


def wanted(snapshot: Snapshot, *history: Ran, regions: tuple[str, ...] = ()) -> tuple[Wanted, ...]:
    return demand(snapshot, history, POLICY, {"vision": regions} if regions else {})


def busy(w: Wanted) -> list[int]:
    return [hour for hour in range(HOURS) if w.gangs[hour]]


def test_a_pending_job_is_wanted_from_now_for_its_runtime() -> None:
    (w,) = wanted(seen(job("train")))
    assert w.of == Class(Promise.INTERRUPTIBLE, MODEL, 8) and busy(w) == [0, 1, 2] and w.gpu_hours == 24


def test_a_running_job_is_wanted_for_what_is_left_of_it() -> None:
    (w,) = wanted(seen(running=((job("train"), 2 * HOUR),)))
    assert busy(w) == [0]
    (late,) = wanted(seen(running=((job("train"), 9 * HOUR),)))
    assert busy(late) == [0]  # it runs on, however long it declared


def test_a_job_without_a_declared_runtime_counts_a_day() -> None:
    (w,) = wanted(seen(job("train", runtime=None)))
    assert len(busy(w)) == 24


def test_a_service_is_wanted_always_with_headroom() -> None:
    (w,) = wanted(seen(*(job(f"serve-{n}", gpus=1, kind=Kind.INFERENCE) for n in range(10))))
    assert w.of == Class(Promise.SERVICE, MODEL, 1) and set(w.gangs) == {11}


PROMISES = {
    "training may be interrupted": ({}, Promise.INTERRUPTIBLE),
    "who may not be preempted may not": ({"preemptible": False}, Promise.FIRM),
    "people at work may not": ({"kind": Kind.INTERACTIVE}, Promise.FIRM),
    "a deadline far away leaves time for a loss": ({"deadline": MONDAY + 4 * HOUR}, Promise.INTERRUPTIBLE),
    "a deadline that one more loss would break leaves none": (
        {"deadline": MONDAY + 3 * HOUR + 2 * POLICY.restart + timedelta(minutes=10)},
        Promise.FIRM,
    ),
}


@pytest.mark.parametrize(("asked", "promise"), PROMISES.values(), ids=PROMISES)
def test_what_is_promised_to_whom(asked: dict[str, object], promise: Promise) -> None:
    (w,) = wanted(seen(job("one", **asked)))
    assert w.of.promise is promise


def test_a_gang_over_nodes_needs_a_fabric_and_keeps_its_size() -> None:
    (w,) = wanted(seen(job("big", pods=4)))
    assert (w.of.gang, w.of.fabric) == (32, True)


def test_regions_and_capacity_types_bind_the_class() -> None:
    (w,) = wanted(seen(job("here", capacity=(CapacityType.ON_DEMAND,))), regions=("eu",))
    assert (w.of.regions, w.of.capacity) == (("eu",), (CapacityType.ON_DEMAND,))


def test_what_a_limit_holds_back_is_no_demand() -> None:
    first, second = job("first", priority=90), job("second")
    (w,) = wanted(seen(second, first, limit=8))
    assert max(w.gangs) == 1
    assert wanted(seen(first, running=((second, HOUR),), limit=8))[0].gangs[:2] == (1, 1)


@pytest.mark.parametrize(
    ("ask", "gpus"),
    [(Share(250, 1), Fraction(1, 4)), (Slice(profile="1g.10gb"), Fraction(1, 8)), (Slice(20 * 1024), Fraction(1, 4))],
    ids=["a share", "a profile", "memory"],
)
def test_parts_of_a_card_count_as_parts(ask: Share | Slice, gpus: Fraction) -> None:
    assert gpus_of(replace(job("part"), pod_sets=(PodSet(1, ask),))) == gpus


# ------------------------------------------------------------------ past weeks

TRAINING, SERVICE = Class(Promise.INTERRUPTIBLE, MODEL, 8), Class(Promise.SERVICE, MODEL, 1)


def weeks(of: Class, *gangs: int) -> list[Ran]:
    """At 9 o'clock on so many Mondays, and the last hour of the last week so that all of it is known."""
    last = Ran(MONDAY + timedelta(weeks=len(gangs)) - HOUR, Class(Promise.FIRM, "A100-80"), 1)
    return [Ran(MONDAY + timedelta(weeks=n, hours=9), of, g) for n, g in enumerate(gangs)] + [last]


def at_nine(found: tuple[Wanted, ...], of: Class) -> int:
    return next((w.gangs[9] for w in found if w.of == of), 0)


def test_training_plans_for_three_weeks_of_four_and_services_for_all() -> None:
    assert at_nine(wanted(seen(), *weeks(TRAINING, 2, 3, 4, 20)), TRAINING) == 4
    assert at_nine(wanted(seen(), *weeks(SERVICE, 10, 10, 10, 20)), SERVICE) == 22


def test_a_week_without_counts_as_nothing() -> None:
    assert at_nine(wanted(seen(), *weeks(TRAINING, 0, 0, 0, 20)), TRAINING) == 0


def test_what_runs_now_is_part_of_what_usually_runs() -> None:
    now = job("now", runtime=12 * HOUR)
    assert at_nine(wanted(seen(now), *weeks(TRAINING, 3)), TRAINING) == 3


def test_a_quantile_is_a_value_that_was_seen() -> None:
    assert [quantile([4, 1, 3, 2], Fraction(p, 4)) for p in range(5)] == [1, 1, 2, 3, 4]
