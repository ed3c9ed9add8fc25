"""Jobs, their attempts and places, the claims of Airflow tries, and the latest verdict on each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Text, bindparam, cast, func, insert, select, update

from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Job, Kind
from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks
from gpufleet.store.codec import dump_job, load_job
from gpufleet.store.places import EMPTY_PLACE, place_rows

ENDED = ("succeeded", "failed", "cancelled")
"""States a job never leaves."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job and where it stands. `state`: pending, starting, running, stopping, succeeded, failed, cancelled.

    `intent` says what follows when a stopping attempt has ended: run, requeue, cancel or fail.
    """

    job: Job
    state: str
    intent: str
    reason: str
    failures: int
    not_before: datetime | None
    not_on: tuple[str, ...]
    waiting_since: datetime | None
    ended_at: datetime | None
    save_request: int
    save_asked_at: datetime | None
    progress: dict[str, Any] | None

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try at running a job on real places; `state`: starting, running, stopping, ended."""

    job: str
    number: int
    state: str
    cluster: str
    decided_at: datetime
    running_at: datetime | None
    stopping_at: datetime | None
    ended_at: datetime | None
    end_reason: str
    interruption: str | None
    missing_since: datetime | None
    busy: float | None
    """The part of the last minutes in which its GPUs worked; None where nobody measures it."""
    idle_since: datetime | None


_ROW: Final = (*(c for c in t.job.c if c.name != "spec"), cast(t.job.c.spec, Text).label("asked"))
"""What `_job_row` reads."""


def _job_row(row: Row[Any]) -> JobRow:
    # the columns win over the spec: priority may have been changed since
    job = load_job(row.asked)
    if job.priority != row.priority:
        job = replace(job, priority=row.priority)
    return JobRow(
        job,
        row.state,
        row.intent,
        row.reason,
        row.failures,
        row.not_before,
        tuple(row.not_on),
        row.waiting_since,
        row.ended_at,
        row.save_request,
        row.save_asked_at,
        row.progress,
    )


def add_job(connection: Connection, job: Job) -> None:
    same = ("id", "name", "team", "project", "queue", "priority", "submitted_by", "submitted_at")
    connection.execute(
        insert(t.job).values(
            **{name: getattr(job, name) for name in same},
            kind=job.kind.value,
            spec=dump_job(job),
            state="pending",
            intent="run",
            reason="",
            failures=0,
            not_on=[],
            waiting_since=job.submitted_at,
            save_request=0,
        )
    )


def get(connection: Connection, job_id: str) -> JobRow | None:
    row = connection.execute(select(*_ROW).where(t.job.c.id == job_id)).first()
    return _job_row(row) if row else None


def get_many(connection: Connection, ids: Iterable[str]) -> dict[str, JobRow]:
    """Those that are there, by id."""
    return {
        row.id: _job_row(row)
        for some in chunks(ids)
        for row in connection.execute(select(*_ROW).where(t.job.c.id.in_(some)))
    }


def find(connection: Connection, text: str) -> tuple[str, ...]:
    """Ids a person may mean: the exact id; else the live job of that name, or its newest one; else ids that begin so."""
    exact = connection.execute(select(t.job.c.id).where(t.job.c.id == text)).scalar()
    if exact is not None:
        return (exact,)
    over = t.job.c.state.in_(ENDED)
    named = connection.execute(
        select(t.job.c.id, over.label("over")).where(t.job.c.name == text).order_by(t.job.c.submitted_at.desc())
    ).all()
    if named:
        return tuple(r.id for r in named if not r.over) or (named[0].id,)
    begins = t.job.c.id.startswith(text, autoescape=True)
    found = connection.execute(select(t.job.c.id).where(begins).order_by(t.job.c.submitted_at)).scalars()
    return tuple(id for id in found if id.startswith(text))  # SQLite's LIKE does not look at capitals


def live(connection: Connection) -> tuple[JobRow, ...]:
    """Every job that has not ended, oldest first."""
    query = select(*_ROW).where(t.job.c.state.not_in(ENDED)).order_by(t.job.c.submitted_at, t.job.c.id)
    return tuple(map(_job_row, connection.execute(query)))


def that_save(connection: Connection) -> tuple[JobRow, ...]:
    """Live training jobs that tell of themselves. One that tells nothing does not save through us: nobody is to be asked."""
    tells = t.job.c.progress.is_not(None) & (cast(t.job.c.progress, Text) != "null")
    return _some(connection, t.job.c.state.not_in(ENDED), t.job.c.kind == Kind.TRAINING.value, tells)


def running_with_deadline(connection: Connection) -> tuple[JobRow, ...]:
    """Running jobs that are to be done by some instant. Few have one, so the rest is not even read."""
    said = cast(t.job.c.spec, Text).like('%"deadline": "%')
    return _some(connection, t.job.c.state == "running", said)


def _some(connection: Connection, *which: ColumnElement[bool]) -> tuple[JobRow, ...]:
    return tuple(map(_job_row, connection.execute(select(*_ROW).where(*which).order_by(t.job.c.id))))


def recent(connection: Connection, limit: int = 200) -> tuple[JobRow, ...]:
    """The newest jobs, live ones first."""
    over = t.job.c.state.in_(ENDED)
    query = select(*_ROW).order_by(over, t.job.c.submitted_at.desc(), t.job.c.id).limit(limit)
    return tuple(map(_job_row, connection.execute(query)))


def count_by_state(connection: Connection) -> dict[str, int]:
    return {
        r.state: r.n for r in connection.execute(select(t.job.c.state, func.count().label("n")).group_by(t.job.c.state))
    }


def change(connection: Connection, job_id: str, **values: Any) -> None:
    connection.execute(update(t.job).where(t.job.c.id == job_id).values(**values))


def change_many(connection: Connection, changes: Sequence[dict[str, Any]]) -> None:
    """Of each the job's `id` and the same other columns."""
    if changes:
        values = {name: bindparam(f"new_{name}", type_=t.job.c[name].type) for name in changes[0] if name != "id"}
        change = update(t.job).where(t.job.c.id == bindparam("new_id")).values(values)
        connection.execute(change, [{f"new_{name}": value for name, value in c.items()} for c in changes])


def attempts(connection: Connection, job_id: str) -> tuple[AttemptRow, ...]:
    query = select(t.attempt).where(t.attempt.c.job == job_id).order_by(t.attempt.c.number)
    return tuple(AttemptRow(*row) for row in connection.execute(query))


def live_attempts(connection: Connection) -> tuple[AttemptRow, ...]:
    query = select(t.attempt).where(t.attempt.c.state != "ended").order_by(t.attempt.c.job)
    return tuple(AttemptRow(*row) for row in connection.execute(query))


def ran_since(connection: Connection, since: datetime) -> tuple[Row[Any], ...]:
    """Attempts that ran at any time after `since`: job, number, running_at, ended_at."""
    a = t.attempt.c
    query = select(a.job, a.number, a.running_at, a.ended_at)
    ran = a.running_at.is_not(None) & (a.ended_at.is_(None) | (a.ended_at > since))
    return tuple(connection.execute(query.where(ran).order_by(a.job, a.number)))


def live_attempts_of(connection: Connection, ids: Iterable[str]) -> dict[str, AttemptRow]:
    """By job; a job has at most one."""
    a = t.attempt
    return {
        row.job: AttemptRow(*row)
        for some in chunks(ids)
        for row in connection.execute(select(a).where(a.c.job.in_(some), a.c.state != "ended"))
    }


def clusters_of(connection: Connection, ids: Iterable[str]) -> dict[tuple[str, int], str]:
    """By (job, number), the cluster of every attempt of these jobs."""
    a = t.attempt.c
    return {
        (row.job, row.number): row.cluster
        for some in chunks(ids)
        for row in connection.execute(select(a.job, a.number, a.cluster).where(a.job.in_(some)))
    }


def live_attempt(connection: Connection, job_id: str) -> AttemptRow | None:
    return live_attempts_of(connection, [job_id]).get(job_id)


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """What a plan gives a job: places on one cluster, and by rank whether they are within its guarantee."""

    job: str
    cluster: str
    places: tuple[PodPlace, ...]
    marks: dict[int, str]


def add_attempts(connection: Connection, new: Sequence[NewAttempt], now: datetime) -> dict[str, int]:
    """Write attempts and their assignments; the database refuses a second live one, and a device given twice.

    Returns each job's attempt number.
    """
    if not new:
        return {}
    a = t.attempt.c
    last: dict[str, int] = {
        row.job: row.last
        for some in chunks(n.job for n in new)
        for row in connection.execute(
            select(a.job, func.max(a.number).label("last")).where(a.job.in_(some)).group_by(a.job)
        )
    }
    numbers = {n.job: last.get(n.job, 0) + 1 for n in new}
    begun = {"state": "starting", "decided_at": now, "end_reason": ""}
    connection.execute(
        insert(t.attempt), [{"job": n.job, "number": numbers[n.job], "cluster": n.cluster, **begun} for n in new]
    )
    add_places(connection, new, numbers)
    return numbers


def add_places(connection: Connection, new: Sequence[NewAttempt], numbers: Mapping[str, int]) -> None:
    """Write the assignments of these attempts; the database refuses a device that is given twice."""
    if rows := [row for n in new for row in _assignments(n, numbers[n.job])]:
        connection.execute(insert(t.assignment), rows)


def _assignments(new: NewAttempt, number: int) -> Iterator[dict[str, Any]]:
    for place in new.places:
        whose = {"job": new.job, "attempt": number, "quota_mark": new.marks.get(place.rank, "guaranteed"), "live": True}
        for values in place_rows(place):
            yield EMPTY_PLACE | values | whose


def change_attempt(connection: Connection, job_id: str, number: int, **values: Any) -> None:
    connection.execute(
        update(t.attempt).where(t.attempt.c.job == job_id, t.attempt.c.number == number).values(**values)
    )


def attempts_run(connection: Connection, which: Sequence[tuple[str, int]], now: datetime) -> None:
    """All pods of these (job, number) have started."""
    begun = {"state": "running", "running_at": now}
    change_attempts(connection, [{"job": job, "number": number, **begun} for job, number in which])


def change_attempts(connection: Connection, changes: Sequence[dict[str, Any]]) -> None:
    """Of each `job`, `number` and the same other columns."""
    if changes:
        a = t.attempt
        names = [name for name in changes[0] if name not in ("job", "number")]
        values = {name: bindparam(f"new_{name}", type_=a.c[name].type) for name in names}
        change = update(a).where(a.c.job == bindparam("new_job"), a.c.number == bindparam("new_number")).values(values)
        connection.execute(change, [{f"new_{name}": value for name, value in c.items()} for c in changes])
