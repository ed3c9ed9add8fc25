"""The latest reason for each job that waits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from gpufleet.model.plan import Waiting
from gpufleet.store import schema as t


def replace_all(connection: Connection, waiting: tuple[Waiting, ...], now: datetime) -> None:
    """The latest reason for each waiting job; jobs that wait no more lose theirs."""
    connection.execute(delete(t.verdict))
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


def by_job(connection: Connection) -> dict[str, Row[Any]]:
    return {r.job: r for r in connection.execute(select(t.verdict))}
