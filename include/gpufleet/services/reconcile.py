"""Removes what runs without a row, and stops for a person when that would be much.

A restored backup or a second installation looks just like a mass of orphans, so more than a few are never removed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy import Connection

from gpufleet.clusters.base import Observation
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, ledger, operations

log = structlog.get_logger()

GRACE: Final = timedelta(seconds=30)
"""A pod without a row must be this old: its row may be in a transaction that has not committed."""
MOST_PODS: Final = 5
MOST_SHARE: Final = 0.10


def reconcile(fleet: Fleet, looks: tuple[Observation, ...]) -> None:
    """Decide to stop the orphans of every cluster that was just seen."""
    for seen in looks:
        if any(not p.phase.is_over for p in seen.pods):
            with fleet.database.write() as connection:
                _stop_orphans(connection, fleet, seen)


def _stop_orphans(connection: Connection, fleet: Fleet, seen: Observation) -> None:
    known = {(a.job, a.number) for a in jobs.live_attempts(connection)}
    orphans = [p for p in seen.pods if not p.phase.is_over and (p.job, p.attempt) not in known]
    if not orphans:
        return
    now = fleet.clock.now()
    if len(orphans) > MOST_PODS or len(orphans) > max(1, MOST_SHARE * len(seen.pods)):
        names = ", ".join(sorted(p.name for p in orphans)[:3])
        log.error("too many orphans to remove without a person", cluster=seen.cluster, pods=len(orphans), first=names)
        return
    for job, attempt in sorted({(p.job, p.attempt) for p in orphans}):
        operations.decide(
            connection,
            now,
            kind="stop",
            target=f"job/{job}",
            name=f"stop-orphan/{job}/{attempt}",
            args={"cluster": seen.cluster, "job": job, "attempt": attempt, "grace": 30.0},
            not_before=now + GRACE,
        )
        ledger.audit(connection, now, "reconciler", "stop-orphan", f"{job}/{attempt}")
