"""GPUs that are held and do not work: how busy every attempt is, and whom that is told of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from sqlalchemy import Connection

from gpufleet.clusters.base import PodSeen
from gpufleet.model.policy import RecoveryPolicy
from gpufleet.services.asked import gpus_asked
from gpufleet.store import jobs
from gpufleet.store.jobs import AttemptRow, JobRow


def note_use(
    connection: Connection,
    live: Iterable[AttemptRow],
    pods: Mapping[tuple[str, int], Sequence[PodSeen]],
    policy: RecoveryPolicy,
    now: datetime,
) -> None:
    """Write down how busy running attempts are, and since when they are idle; nothing where nobody measured."""
    changed = []
    for attempt in live:
        told = [p.busy for p in pods.get((attempt.job, attempt.number), ()) if p.busy is not None]
        if attempt.state != "running" or not told:
            continue
        busy = round(fmean(told), 2)
        since = (attempt.idle_since or now) if busy < policy.idle_below else None
        if (busy, since) != (attempt.busy, attempt.idle_since):
            changed.append({"job": attempt.job, "number": attempt.number, "busy": busy, "idle_since": since})
    jobs.change_attempts(connection, changed)


def idle_jobs(
    rows: Mapping[str, JobRow], live: Iterable[AttemptRow], policy: RecoveryPolicy, now: datetime
) -> list[dict[str, Any]]:
    """Jobs whose GPUs have been idle for longer than the alarm allows, the longest first."""
    late = [a for a in live if a.idle_since is not None and a.state == "running" and a.job in rows]
    return [
        {
            "job": a.job,
            "team": rows[a.job].job.team,
            "asks": gpus_asked(rows[a.job].job),
            "busy": a.busy,
            "since": a.idle_since.isoformat(),
        }
        for a in sorted(late, key=lambda a: (a.idle_since or now, a.job))
        if a.idle_since is not None and now - a.idle_since >= policy.idle_alarm
    ]
