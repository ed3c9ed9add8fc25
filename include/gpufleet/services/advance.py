"""Feeds one event to a job's state machine and writes what follows, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from sqlalchemy import Connection

from gpufleet.lifecycle import machine
from gpufleet.lifecycle.machine import EndAttempt, Event, Finish, Instruction, Intent, Launch, Requeue, Run, State, Stop
from gpufleet.services.fleet import Fleet
from gpufleet.services.meter import release_rest
from gpufleet.store import jobs, leases, operations, places, world
from gpufleet.store.jobs import AttemptRow, JobRow


def target(job_id: str) -> str:
    """Operations on one job run in sequence: they share this target."""
    return f"job/{job_id}"


def operation_name(verb: str, job_id: str, attempt: int) -> str:
    """Deterministic, so the same decision twice is one effect."""
    return f"{verb}/{job_id}/{attempt}"


def advance(connection: Connection, fleet: Fleet, job_id: str, event: Event, now: datetime) -> bool:
    """Apply the event; True when anything changed."""
    return advance_all(connection, fleet, {job_id: event}, now) > 0


def advance_all(connection: Connection, fleet: Fleet, events: Mapping[str, Event], now: datetime) -> int:
    """Apply one event each to many jobs; returns how many changed. Jobs that are not there hear nothing."""
    rows, live = jobs.get_many(connection, events), jobs.live_attempts_of(connection, events)
    steps: list[tuple[JobRow, Run, Run, tuple[Instruction, ...]]] = []
    for job_id, row in sorted(rows.items()):
        before = _run(fleet, row, live.get(job_id))
        after, instructions = machine.handle(before, events[job_id])
        if after != before or instructions:
            steps.append((row, before, after, instructions))
    if not steps:
        return 0
    jobs.change_many(connection, [_standing(after) for _, _, after, _ in steps])
    begun = [(after.job, after.attempt) for _, before, after, _ in steps if _begins_to_run(before, after)]
    jobs.attempts_run(connection, begun, now)
    for row, _, _, instructions in steps:
        for instruction in instructions:
            _carry_out(connection, fleet, row, instruction, now)
    leases.touch(connection)
    return len(steps)


def _standing(run: Run) -> dict[str, object]:
    return {
        "id": run.job,
        "state": run.state.value,
        "intent": run.intent.value,
        "reason": run.reason,
        "failures": run.failures,
    }


def _begins_to_run(before: Run, after: Run) -> bool:
    return after.state is State.RUNNING and before.state is not State.RUNNING


def _run(fleet: Fleet, row: JobRow, attempt: AttemptRow | None) -> Run:
    return Run(
        row.job.id,
        State(row.state),
        Intent(row.intent),
        attempt.number if attempt else 0,
        row.failures,
        fleet.recovery.max_failures,
        row.reason,
    )


def _carry_out(connection: Connection, fleet: Fleet, row: JobRow, instruction: Instruction, now: datetime) -> None:
    job = row.job.id
    match instruction:
        case Launch():
            return  # written together with the attempt by `commit_plan`, which knows what the launch must wait for
        case Stop(attempt, _why):
            _stop(connection, row, attempt, now)
        case EndAttempt(attempt, why):
            _end(connection, job, attempt, why, now)
        case Requeue(why, not_on):
            _requeue(connection, fleet, row, why, not_on, now)
        case Finish(state, why):
            jobs.change(connection, job, state=state.value, reason=why, ended_at=now, waiting_since=None)
        case _:
            assert_never(instruction)


def _stop(connection: Connection, row: JobRow, attempt: int, now: datetime) -> None:
    """A stop supersedes a launch that has not begun; both may be asked again."""
    job = row.job.id
    operations.supersede(connection, target(job), ("launch", "save"), now)
    operations.decide(
        connection,
        now,
        kind="stop",
        target=target(job),
        name=operation_name("stop", job, attempt),
        args={"job": job, "attempt": attempt, "grace": row.job.checkpoint.grace.total_seconds()},
    )
    jobs.change_attempt(connection, job, attempt, state="stopping", stopping_at=now)


def _end(connection: Connection, job: str, attempt: int, why: str, now: datetime) -> None:
    operations.supersede(connection, target(job), ("launch", "save", "stop"), now)
    operations.decide(
        connection,
        now,
        kind="remove",
        target=target(job),
        name=operation_name("remove", job, attempt),
        args={"job": job, "attempt": attempt},
    )
    _close_use(connection, job, attempt, now)
    places.give_back(connection, job, attempt)
    jobs.change_attempt(connection, job, attempt, state="ended", ended_at=now, end_reason=why)


def _close_use(connection: Connection, job: str, attempt: int, now: datetime) -> None:
    """Pods that went away without saying when: their use ends with the last look at their cluster."""
    row = next(a for a in jobs.attempts(connection, job) if a.number == attempt)
    cluster = world.clusters(connection).get(row.cluster)
    if cluster is not None:
        release_rest(connection, job, attempt, cluster.cluster_time, now)


def _requeue(
    connection: Connection, fleet: Fleet, row: JobRow, why: str, not_on: tuple[str, ...], now: datetime
) -> None:
    avoid = sorted({*row.not_on, *not_on})
    jobs.change(connection, row.job.id, reason=why, not_on=avoid, waiting_since=now)
