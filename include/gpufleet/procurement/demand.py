"""How many GPUs will be wanted in each hour of a week, and what each of them must be like.

Two sources meet: what ran in past weeks (a quantile of each hour of the week) and the jobs that are known now (their
declared runtime from now on). Of an hour the larger counts: a job that runs now is part of what usually runs.
A job beyond its queue's limit is no demand: the quota holds it, not the hardware.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.model.workload import Demand, Job, Kind, Share, Slice, Whole

HOURS: Final = 168
"""Of a week; hour 0 begins on Monday at midnight UTC."""
HOUR: Final = timedelta(hours=1)


class Promise(StrEnum):
    """What was promised to the work, the strictest first."""

    SERVICE = "service"
    """Production inference: reserved or owned capacity, always."""
    FIRM = "firm"
    """Runs through once it runs: everything but spot."""
    INTERRUPTIBLE = "interruptible"
    """Saves its work and may be stopped: anything."""


@dataclass(frozen=True, slots=True, order=True)
class Class:
    """Work that any suitable capacity serves equally well. `gang` is in GPUs, placed together in one pool; `fabric`:
    it spans nodes and needs a fast network between them; no `regions` = anywhere; no `capacity` = what the promise
    allows."""

    promise: Promise
    model: str
    gang: int = 1
    fabric: bool = False
    regions: tuple[str, ...] = ()
    capacity: tuple[CapacityType, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Gangs of one class that are wanted in each of the 168 hours of a week."""

    of: Class
    gangs: tuple[int, ...]

    @property
    def gpu_hours(self) -> int:
        return self.of.gang * sum(self.gangs)


@dataclass(frozen=True, slots=True)
class Ran:
    """So many gangs of a class ran at the same time in one hour of the past (its beginning)."""

    at: datetime
    of: Class
    gangs: int


@dataclass(frozen=True, slots=True)
class DemandPolicy:
    """How demand is read from what is known.

    A service's demand is the largest of its hours plus headroom, since its promise must hold in the worst of them;
    other work waits where more comes than usual, so a quantile of its hours is enough."""

    quantile: Fraction = Fraction(3, 4)
    service_headroom: Fraction = Fraction(1, 10)
    unknown_runtime: timedelta = timedelta(hours=24)
    """For jobs that declare none."""
    restart: timedelta = timedelta(minutes=12)
    """Until a stopped gang works again elsewhere."""
    node_gpus: int = 8
    """A gang above this needs a fabric between its nodes."""


def demand(
    snapshot: Snapshot,
    history: Iterable[Ran],
    policy: DemandPolicy,
    regions: Mapping[str, tuple[str, ...]],
) -> tuple[Wanted, ...]:
    """Demand by class for each hour of the week, classes in order. `regions` are those a team is bound to."""
    usual, known = _usual(history, policy), _known(snapshot, policy, regions)
    found = []
    for of in sorted(usual.keys() | known.keys()):
        hours = [max(a, b) for a, b in zip(usual[of], known[of], strict=True)]
        more = 1 + policy.service_headroom if of.promise is Promise.SERVICE else Fraction(1)
        found.append(Wanted(of, tuple(ceil(gangs * more) for gangs in hours)))
    return tuple(w for w in found if any(w.gangs))


def hour_of_week(at: datetime) -> int:
    return at.weekday() * 24 + at.hour


# ------------------------------------------------------------------ what usually runs


def _usual(history: Iterable[Ran], policy: DemandPolicy) -> dict[Class, list[int]]:
    """Of each hour of the week the quantile over the weeks that are known; an hour nothing was told of counts 0."""
    rows = list(history)
    weeks = _weeks(rows)
    seen: dict[tuple[Class, int], list[int]] = defaultdict(list)
    for row in rows:
        seen[row.of, hour_of_week(row.at)].append(row.gangs)
    found: dict[Class, list[int]] = defaultdict(lambda: [0] * HOURS)
    for (of, hour), gangs in seen.items():
        part = Fraction(1) if of.promise is Promise.SERVICE else policy.quantile
        found[of][hour] = quantile([*gangs, *[0] * (weeks - len(gangs))], part)
    return found


def _weeks(rows: Sequence[Ran]) -> int:
    """Whole weeks from the first hour to the last, at least one."""
    if not rows:
        return 1
    first, last = min(r.at for r in rows), max(r.at for r in rows)
    return max(1, ceil((last - first + HOUR) / (HOURS * HOUR)))


def quantile(values: Sequence[int], part: Fraction) -> int:
    """The smallest value that at least this part of them does not exceed (nearest rank)."""
    return sorted(values)[max(0, ceil(part * len(values)) - 1)]


# ------------------------------------------------------------------ what is known now


def _known(snapshot: Snapshot, policy: DemandPolicy, regions: Mapping[str, tuple[str, ...]]) -> dict[Class, list[int]]:
    """Running jobs for the rest of their runtime, pending ones within their limit for all of it, from now on."""
    found: dict[Class, list[int]] = defaultdict(lambda: [0] * HOURS)
    for job, started_at in _counted(snapshot):
        left = _left(job, started_at, snapshot.at, policy)
        of = class_of(job, left, snapshot.at, policy, regions.get(job.team, ()))
        first = hour_of_week(snapshot.at)
        for hour in range(HOURS if left is None else min(HOURS, ceil(left / HOUR))):
            found[of][(first + hour) % HOURS] += 1
    return found


def _counted(snapshot: Snapshot) -> Iterator[tuple[Job, datetime | None]]:
    """Jobs with the start of those that run: pending ones by priority, then age, as long as every limit allows."""
    used: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    queues = {queue.name: queue for queue in snapshot.queues}
    for running in snapshot.running:
        _take(running.job, queues, used)
        yield running.job, running.started_at
    for job in sorted((p.job for p in snapshot.pending), key=lambda j: (-j.priority, j.submitted_at, j.id)):
        if _within(job, queues, used):
            _take(job, queues, used)
            yield job, None


def _above(name: str | None, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    while name is not None and name in queues:
        yield queues[name]
        name = queues[name].parent


def _within(job: Job, queues: Mapping[str, Queue], used: Mapping[tuple[str, str], Fraction]) -> bool:
    asked, model = gpus_of(job), model_of(job)
    return all(
        used.get((queue.name, key), Fraction(0)) + asked <= limit.gpus
        for queue in _above(job.queue, queues)
        for key, limit in queue.limit
        if key in (ANY_MODEL, model)
    )


def _take(job: Job, queues: Mapping[str, Queue], used: dict[tuple[str, str], Fraction]) -> None:
    for queue in _above(job.queue, queues):
        for key in (ANY_MODEL, model_of(job)):
            used[queue.name, key] += gpus_of(job)


def _left(job: Job, started_at: datetime | None, now: datetime, policy: DemandPolicy) -> timedelta | None:
    """Work that is left; None for a service, which never ends. One that runs longer than declared: another hour."""
    if job.kind is Kind.INFERENCE:
        return None
    whole = job.runtime or policy.unknown_runtime
    return whole if started_at is None else max(HOUR, whole - (now - started_at))


# ------------------------------------------------------------------ one job


def class_of(job: Job, left: timedelta | None, now: datetime, policy: DemandPolicy, regions: tuple[str, ...]) -> Class:
    """What capacity must be like for this job, with so much work left."""
    gang = max(1, ceil(gpus_of(job)))
    fabric = job.pods > 1 and gang > policy.node_gpus
    return Class(promise(job, left, now, policy), model_of(job), gang, fabric, regions, tuple(sorted(job.capacity)))


def promise(job: Job, left: timedelta | None, now: datetime, policy: DemandPolicy) -> Promise:
    """What its capacity must promise, with so much work left (None: it never ends, or nobody said).

    A deadline job may be interrupted only while one more loss could still be made good: work left + two restarts +
    what is done between two checkpoints must end before it."""
    if job.kind is Kind.INFERENCE:
        return Promise.SERVICE
    if job.kind is Kind.INTERACTIVE or not job.preemptible:
        return Promise.FIRM
    if job.deadline is not None and left is not None:
        safe = left + 2 * policy.restart + job.checkpoint.interval
        return Promise.INTERRUPTIBLE if now + safe < job.deadline else Promise.FIRM
    return Promise.INTERRUPTIBLE


def model_of(job: Job) -> str:
    """The model it is counted under: the first it names, or any."""
    return job.models[0] if job.models else ANY_MODEL


def gpus_of(job: Job) -> Fraction:
    """GPUs of the whole job; of slices and shares the parts of a card they take."""
    return sum((s.count * _gpus(s.demand, model_of(job)) for s in job.pod_sets), Fraction(0))


def _gpus(asked: Demand, model: str) -> Fraction:
    match asked:
        case Whole(gpus):
            return Fraction(gpus)
        case Share(milli, _):
            return Fraction(milli, 1000)
        case Slice():
            return _slice(asked, model)


def _slice(asked: Slice, model: str) -> Fraction:
    """Without a model nobody knows how large a part it is: a whole card, so that it fits."""
    if model == ANY_MODEL:
        return Fraction(1)
    card = gpu_model(model)
    profile = card.profile(asked.profile) if asked.profile else None
    if profile is not None:
        return card.slice_amount(profile).gpus
    return min(Fraction(1), Fraction(asked.memory_mib, card.memory_mib)) or Fraction(1)
