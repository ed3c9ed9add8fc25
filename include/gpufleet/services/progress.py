"""Reads what running jobs say of themselves in the checkpoint store, outside any transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import DBAPIError

from gpufleet.checkpoints import store as checkpoints
from gpufleet.errors import GpufleetError
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, leases
from gpufleet.store import schema as t
from gpufleet.store.jobs import AttemptRow
from gpufleet.training.manifest import dump_progress

AT_ONCE: Final = 500
"""Files read in one round."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProgressRead:
    """(job, attempt, progress as JSON) for every running job that has any."""

    found: tuple[tuple[str, int, dict[str, Any]], ...]

    def write(self, connection: Connection) -> None:
        """Keep the latest on the job, and every save it names in the list of checkpoints."""
        for job_id, attempt, progress in self.found:
            try:
                with connection.begin_nested():
                    jobs.change(connection, job_id, progress=progress)
                    if save := progress.get("last_save"):
                        _note_save(connection, job_id, attempt, save)
            except (DBAPIError, OverflowError, ValueError) as e:
                # what a job writes must never stop the look at everyone else's
                log.warning("progress cannot be kept", job=job_id, error=str(e)[:200])


def read_progress(fleet: Fleet) -> ProgressRead:
    """One small file per running attempt; a file that is not there or cannot be read is no news."""
    with fleet.database.read() as connection:
        attempts = in_turn(jobs.live_attempts(connection), leases.counters(connection)[1])
    found = []
    for attempt in attempts:
        if attempt.state == "starting" and attempt.running_at is None:
            continue
        try:
            progress = checkpoints.read_progress(fleet.checkpoints_url, attempt.job, attempt.number)
        except GpufleetError:
            continue  # half-written or unreachable now: the next look has it
        if progress is not None:
            found.append((attempt.job, attempt.number, json.loads(dump_progress(progress))))
    return ProgressRead(tuple(found))


def in_turn(attempts: Sequence[AttemptRow], round_: int) -> Sequence[AttemptRow]:
    """Of thousands only a part in each round: a file each is much to ask of a store, and they change every few seconds."""
    parts = -(-len(attempts) // AT_ONCE)
    return attempts[round_ % parts :: parts] if parts > 1 else attempts


def _note_save(connection: Connection, job_id: str, attempt: int, save: dict[str, Any]) -> None:
    key = (t.checkpoint.c.job == job_id, t.checkpoint.c.attempt == attempt, t.checkpoint.c.step == save["step"])
    if connection.execute(select(t.checkpoint.c.step).where(*key)).first() is None:
        at = datetime.fromisoformat(save["at"])
        connection.execute(
            insert(t.checkpoint).values(
                job=job_id, attempt=attempt, step=save["step"], at=at, bytes=save.get("bytes", 0)
            )
        )
