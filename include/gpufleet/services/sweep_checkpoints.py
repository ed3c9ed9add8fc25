"""Every few minutes: ask jobs that are due, prune old and half-written saves, name the stale."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from gpufleet.checkpoints.pruning import prune
from gpufleet.errors import GpufleetError
from gpufleet.services.ask_saves import ask_saves
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs
from gpufleet.store.jobs import JobRow

log = structlog.get_logger()

STALE_AFTER = 4
"""Intervals without a complete save after which a person should look."""


def sweep_checkpoints(fleet: Fleet) -> dict[str, list[str]]:
    """{asked, pruned, stale}: job ids and what was removed."""
    now = fleet.clock.now()
    ask_saves(fleet)
    with fleet.database.read() as connection:
        rows = [r for r in jobs.live(connection) if r.progress]
    pruned: list[str] = []
    for row in rows:
        pruned += _prune(fleet, row, now)
    stale = [r.job.id for r in rows if _is_stale(r, now)]
    for job in stale:
        log.warning("no complete checkpoint for long", job=job)
    return {"asked": [r.job.id for r in rows if r.save_asked_at], "pruned": pruned, "stale": stale}


def _prune(fleet: Fleet, row: JobRow, now: datetime) -> list[str]:
    try:
        removed = prune(fleet.checkpoints_url, row.job.id, keep=row.job.checkpoint.keep, now=now)
    except GpufleetError as e:
        log.warning("could not prune", job=row.job.id, error=str(e))
        return []
    return [r.path for r in removed.removed]


def _is_stale(row: JobRow, now: datetime) -> bool:
    if row.state != "running":
        return False
    save = (row.progress or {}).get("last_save") or {}
    since = datetime.fromisoformat(save["at"]) if save.get("at") else row.job.submitted_at
    return now - since > max(STALE_AFTER * row.job.checkpoint.interval, timedelta(minutes=1))
