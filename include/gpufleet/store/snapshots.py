"""The frozen input of a pass, read in one consistent view."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from gpufleet.model.hardware import Node, NodeState
from gpufleet.model.policy import RecoveryPolicy
from gpufleet.model.snapshot import Pending, Running, Snapshot
from gpufleet.store import jobs, leases, places, tenancy, world
from gpufleet.store.jobs import AttemptRow, JobRow


def read_snapshot(connection: Connection, now: datetime, policy: RecoveryPolicy) -> Snapshot:
    """All a pass may know at `now`. A cluster not seen for long is frozen: nothing new goes there."""
    clusters = world.clusters(connection)
    stale = {c.name for c in clusters.values() if now - c.observed_at > policy.observation_stale_after}
    held = places.live_places(connection)
    attempts = {a.job: a for a in jobs.live_attempts(connection)}
    rows = jobs.live(connection)
    levels = max((c.levels for c in clusters.values()), key=len, default=())
    return Snapshot(
        at=now,
        levels=levels,
        nodes=tuple(_frozen(n) if n.cluster in stale else n for n in world.nodes(connection)),
        queues=tenancy.queues(connection),
        running=tuple(_running(r, attempts[r.job.id], held) for r in rows if r.job.id in attempts),
        pending=tuple(Pending(r.job, _avoided(r, now, policy)) for r in rows if _is_due(r, attempts, now)),
        revision=leases.revision(connection),
    )


def _frozen(node: Node) -> Node:
    return replace(node, state=NodeState.CORDONED) if node.state is NodeState.READY else node


def _avoided(row: JobRow, now: datetime, policy: RecoveryPolicy) -> tuple[str, ...]:
    """Nodes on which it could not start, for as long as the back-off lasts."""
    recent = row.waiting_since is not None and now - row.waiting_since < policy.node_backoff
    return row.not_on if recent else ()


def _is_due(row: JobRow, attempts: dict[str, AttemptRow], now: datetime) -> bool:
    return row.state == "pending" and row.job.id not in attempts and (row.not_before is None or row.not_before <= now)


def _running(row: JobRow, attempt: AttemptRow, held: places.Pods) -> Running:
    last_save = (row.progress or {}).get("last_save") or {}
    return Running(
        job=row.job,
        places=held.get((row.job.id, attempt.number), ()),
        started_at=attempt.running_at or attempt.decided_at,
        last_checkpoint_at=datetime.fromisoformat(last_save["at"]) if last_save.get("at") else None,
        leaving=attempt.state == "stopping",
    )
