"""Asks running jobs for a checkpoint: those whose own saves are overdue."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from gpufleet.lifecycle.cadence import save_is_overdue
from gpufleet.model.workload import Kind
from gpufleet.services.advance import target
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, operations
from gpufleet.store.jobs import AttemptRow, JobRow


def ask_saves(fleet: Fleet) -> None:
    """One request per overdue training job; the request is an operation, so it survives a kill."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        attempts = {a.job: a for a in jobs.live_attempts(connection) if a.state == "running"}
        for row in jobs.that_save(connection):
            if row.job.id in attempts and row.job.kind is Kind.TRAINING and _overdue(row, attempts[row.job.id], now):
                ask(connection, row, attempts[row.job.id], now)


def _overdue(row: JobRow, attempt: AttemptRow, now: datetime) -> bool:
    save = (row.progress or {}).get("last_save") or {}
    last = datetime.fromisoformat(save["at"]) if save.get("at") else None
    return save_is_overdue(now, attempt.running_at or now, last, row.job.checkpoint.interval, row.save_asked_at)


def ask(connection: Connection, row: JobRow, attempt: AttemptRow, now: datetime) -> int:
    """Write down the request; returns its number."""
    number = row.save_request + 1
    jobs.change(connection, row.job.id, save_request=number, save_asked_at=now)
    operations.decide(
        connection,
        now,
        kind="save",
        target=target(row.job.id),
        name=f"save/{row.job.id}/{attempt.number}/{number}",
        args={"job": row.job.id, "attempt": attempt.number, "number": number},
    )
    return number
