"""Jobs of queues that another scheduler places: handed over here; what became of them is read from their pods.

Our own pass neither sees these jobs nor the nodes of other schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from gpufleet.clusters.base import OURS, SCHEDULER, Observation, PodSeen
from gpufleet.clusters.handed import Admission, Stage
from gpufleet.lifecycle.machine import Placed
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.workload import Job
from gpufleet.services.advance import advance_all, operation_name, target
from gpufleet.services.fleet import Fleet
from gpufleet.services.found_places import Found
from gpufleet.services.quota_marks import Marks
from gpufleet.store import jobs, operations, places, tenancy, verdicts
from gpufleet.store.jobs import AttemptRow

Seen = Mapping[tuple[str, int], list[PodSeen]]


def hand_over(fleet: Fleet) -> None:
    """Decide to give every job that is due to the scheduler of its queue: that one keeps the line, not we."""
    if not fleet.handed:
        return
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        due = [
            row.job
            for row in jobs.live(connection)
            if row.state == "pending" and row.job.queue in fleet.handed and (row.not_before or now) <= now
        ]
        new = [jobs.NewAttempt(job.id, fleet.handed[job.queue], (), {}) for job in due]
        numbers = jobs.add_attempts(connection, new, now)
        operations.decide_all(connection, now, [_launch(job, numbers[job.id]) for job in due])
        advance_all(connection, fleet, {job: Placed(number) for job, number in numbers.items()}, now)


def _launch(job: Job, number: int) -> operations.Wanted:
    return operations.Wanted(
        kind="launch",
        target=target(job.id),
        name=operation_name("launch", job.id, number),
        args={"job": job.id, "attempt": number},
    )


def ours(snapshot: Snapshot, handed: Mapping[str, str]) -> Snapshot:
    """Without the nodes, queues and jobs that other schedulers decide about."""
    if not handed and all(_is_ours(dict(node.labels)) for node in snapshot.nodes):
        return snapshot
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if _is_ours(dict(node.labels))),
        queues=tuple(queue for queue in snapshot.queues if queue.name not in handed),
        running=tuple(run for run in snapshot.running if run.job.queue not in handed),
        pending=tuple(wait for wait in snapshot.pending if wait.job.queue not in handed),
    )


def _is_ours(labels: Mapping[str, str]) -> bool:
    return labels.get(SCHEDULER, OURS) == OURS


def handed_jobs(connection: Connection, fleet: Fleet, live: Iterable[AttemptRow]) -> dict[str, Job]:
    """Of these attempts, the jobs that another scheduler places, by id."""
    if not fleet.handed:
        return {}
    rows = jobs.get_many(connection, {attempt.job for attempt in live})
    return {id_: row.job for id_, row in rows.items() if row.job.queue in fleet.handed}


def follow(
    connection: Connection, seen: Observation, live: Iterable[AttemptRow], handed: Mapping[str, Job], pods: Seen
) -> None:
    """Write down where they were put, and of those that wait what their scheduler says."""
    attempts = [attempt for attempt in live if attempt.job in handed]
    _write_places(connection, seen, attempts, handed, pods)
    waiting = {
        attempt.job: _told(seen.admissions.get((attempt.job, attempt.number)))
        for attempt in attempts
        if attempt.state == "starting" and not _is_placed(pods.get((attempt.job, attempt.number), ()))
    }
    verdicts.replace_handed(connection, seen.cluster, waiting, seen.at)


def _write_places(
    connection: Connection, seen: Observation, attempts: list[AttemptRow], handed: Mapping[str, Job], pods: Seen
) -> None:
    """Of each pod that is bound and has no place yet. Its devices are the ones it tells of, else free ones of that node."""
    held = places.live_places(connection)
    found = Found(seen.nodes, (place for some in held.values() for place in some))
    theirs = [(handed[job].queue, some) for (job, _), some in held.items() if job in handed]
    marks = Marks(tenancy.queues(connection), {node.name: node.model for node in seen.nodes}, theirs)
    for attempt in attempts:
        key = (attempt.job, attempt.number)
        known = {place.rank for place in held.get(key, ())}
        bound = [pod for pod in pods.get(key, ()) if pod.bound_at and pod.rank not in known]
        new = tuple(place for pod in bound if (place := found.place(handed[attempt.job], pod)) is not None)
        given = jobs.NewAttempt(attempt.job, seen.cluster, new, marks.give(handed[attempt.job].queue, new))
        jobs.add_places(connection, [given], {attempt.job: attempt.number})


def _is_placed(pods: Iterable[PodSeen]) -> bool:
    some = list(pods)
    return bool(some) and all(pod.bound_at is not None or pod.phase.is_over for pod in some)


def _told(said: Admission | None) -> tuple[int, str]:
    """Position (0: not told) and a sentence."""
    if said is None or said.stage is Stage.UNSEEN:
        return 0, f"{said.scheduler if said else 'its scheduler'} has not looked at it yet"
    words = said.detail or said.reason or ("it makes room for it" if said.stage is Stage.ADMITTED else "it waits")
    return said.position or 0, f"{said.scheduler}: {words}"


def taken_off(said: Admission | None) -> str | None:
    """Why its scheduler ended the attempt, if it did."""
    if said is None or said.stage is not Stage.EVICTED:
        return None
    return f"{said.scheduler} took it off: {': '.join(part for part in (said.reason, said.detail) if part) or 'no reason given'}"


def placed_at(pods: Iterable[PodSeen], otherwise: datetime) -> datetime:
    """Since when its pods should be starting: a job that waits in another scheduler's line is not late."""
    times = [pod.bound_at for pod in pods]
    return max((at for at in times if at is not None), default=otherwise) if all(times) else otherwise
