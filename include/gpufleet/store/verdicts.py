"""The latest reason for each job that waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select

from gpufleet.model.plan import Waiting
from gpufleet.store import schema as t

HANDED_OVER: Final = "handed-over"
"""The reason of a job that another scheduler was given: its detail is what that one says."""


def replace_all(connection: Connection, waiting: tuple[Waiting, ...], now: datetime) -> None:
    """The latest reason for each job that waits for us; jobs that wait no more lose theirs."""
    connection.execute(delete(t.verdict).where(t.verdict.c.reason != HANDED_OVER))
    rows = [
        {
            "job": w.job,
            "position": w.position,
            "queue_position": w.queue_position,
            "reason": w.reason.value,
            "detail": w.detail,
            "unblock": w.unblock,
            "at": now,
        }
        for w in waiting
    ]
    if rows:
        connection.execute(insert(t.verdict), rows)


def replace_handed(connection: Connection, cluster: str, waiting: Mapping[str, tuple[int, str]], now: datetime) -> None:
    """What other schedulers of this cluster say: of each waiting job its position (0: not told) and their sentence."""
    elsewhere = select(t.attempt.c.job).where(t.attempt.c.state != "ended", t.attempt.c.cluster != cluster)
    v = t.verdict.c
    connection.execute(delete(t.verdict).where(v.reason == HANDED_OVER, v.job.not_in(elsewhere)))
    told = {"reason": HANDED_OVER, "at": now}
    rows = [
        {"job": job, "position": position, "queue_position": position, "detail": detail, **told}
        for job, (position, detail) in sorted(waiting.items())
    ]
    if rows:
        connection.execute(insert(t.verdict), rows)


def by_job(connection: Connection) -> dict[str, Row[Any]]:
    return {r.job: r for r in connection.execute(select(t.verdict))}
