"""What became of each notice: who had to leave, whether they are gone, whether they run again. One row for each notice."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from gpufleet.errors import NotFound
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, world
from gpufleet.store import schema as t


def open_interruptions(fleet: Fleet) -> tuple[str, ...]:
    """Ids of notices whose jobs do not all run again yet, oldest first."""
    with fleet.database.read() as connection:
        return world.open_interruptions(connection)


def interruption_view(fleet: Fleet, notice: str) -> dict[str, Any]:
    """The jobs it struck; `left` = none of their attempts of then is live, `resumed` = each runs again or has ended.

    A notice for what runs nothing, or is gone already, is both at once. Raises NotFound for an id nobody heard of.
    """
    with fleet.database.write() as connection:
        row = world.interruption(connection, notice)
        if row is None:
            raise NotFound(f"There is no interruption '{notice}'; `gpufleet status` lists them.")
        struck = [_struck(connection, job, attempt) for job, attempt in _attempts(connection, notice)]
        resumed = all(one["resumed"] for one in struck)
        if resumed and row.resumed_at is None:
            world.note_resumed(connection, notice, fleet.clock.now())
    return {
        "interruption": notice,
        "node": row.node,
        "deadline": row.deadline.isoformat(),
        "jobs": struck,
        "left": all(one["left"] for one in struck),
        "resumed": resumed,
    }


def _attempts(connection: Connection, notice: str) -> list[tuple[str, int]]:
    a = t.attempt.c
    rows = connection.execute(select(a.job, a.number).where(a.interruption == notice).order_by(a.job, a.number))
    return [(row.job, row.number) for row in rows]


def _struck(connection: Connection, job_id: str, number: int) -> dict[str, Any]:
    row, live = jobs.get(connection, job_id), jobs.live_attempt(connection, job_id)
    over = row is None or row.is_over
    runs_again = live is not None and live.number > number and live.state == "running"
    return {
        "job": job_id,
        "attempt": number,
        "state": row.state if row else "gone",
        "left": live is None or live.number != number,
        "resumed": over or runs_again,
    }
