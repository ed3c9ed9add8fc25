"""What a job's pods wrote."""

from __future__ import annotations

from gpufleet.errors import NotFound
from gpufleet.services.change_job import find_job
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs


def read_logs(fleet: Fleet, text: str, *, rank: int = 0, attempt: int | None = None, tail: int = 200) -> str:
    """The last lines of one rank, of the newest attempt unless one is named; raises NotFound with what to do."""
    with fleet.database.read() as connection:
        row = find_job(connection, text)
        attempts = jobs.attempts(connection, row.job.id)
    if not attempts:
        raise NotFound(
            f"job {row.job.id} has not started yet, so it has no logs; 'gpufleet explain {row.job.id}' says why."
        )
    chosen = attempts[-1] if attempt is None else next((a for a in attempts if a.number == attempt), None)
    if chosen is None:
        raise NotFound(f"job {row.job.id} has no attempt {attempt}; it has 1 to {attempts[-1].number}.")
    if not 0 <= rank < row.job.pods:
        raise NotFound(f"job {row.job.id} has no rank {rank}; it has 0 to {row.job.pods - 1}.")
    return fleet.clusters[chosen.cluster].logs(row.job.id, chosen.number, rank, tail=tail)
