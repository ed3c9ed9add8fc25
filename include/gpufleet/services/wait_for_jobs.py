"""States of many jobs in one read: what a poller asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select

from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs
from gpufleet.store import schema as t


def job_states(fleet: Fleet, ids: Iterable[str], *, team: str | None = None) -> dict[str, str]:
    """job -> state, for those that exist (and belong to `team`, where one is given)."""
    query = select(t.job.c.id, t.job.c.state).where(t.job.c.id.in_(sorted(ids)))
    if team is not None:
        query = query.where(t.job.c.team == team)
    with fleet.database.read() as connection:
        return {r.id: r.state for r in connection.execute(query)}


def claimed_job(fleet: Fleet, key: str) -> str | None:
    """The job of one Airflow task instance, or None."""
    with fleet.database.read() as connection:
        return connection.execute(select(t.claim.c.job).where(t.claim.c.key == key)).scalar()


def job_result(fleet: Fleet, job_id: str, *, team: str | None = None) -> dict[str, Any]:
    """What a finished task returns: small, JSON-ready."""
    with fleet.database.read() as connection:
        row = jobs.get(connection, job_id)
        if row is None or (team is not None and row.job.team != team):
            return {"job": job_id, "state": "unknown", "reason": "the job is not in the database"}
        count = select(func.count()).select_from(t.attempt).where(t.attempt.c.job == job_id)
        saves = select(func.max(t.checkpoint.c.step)).where(t.checkpoint.c.job == job_id)
        return {
            "job": job_id,
            "state": row.state,
            "reason": row.reason,
            "attempts": connection.execute(count).scalar_one(),
            "last_step": connection.execute(saves).scalar(),
            "url": f"{fleet.portal_url}job/{job_id}" if fleet.portal_url else "",
        }
