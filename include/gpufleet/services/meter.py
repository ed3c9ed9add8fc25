"""Writes usage events as they are observed: from a pod's binding to its end by the cluster's clock, and nodes up and down.

Each event has an id made from what it tells, so a second look writes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from gpufleet.clusters.base import Observation, PodSeen
from gpufleet.model.hardware import Node, NodeState
from gpufleet.store import jobs, ledger, places, world
from gpufleet.store.codec import load_node
from gpufleet.store.jobs import JobRow


def meter_nodes(connection: Connection, seen: Observation, now: datetime) -> None:
    """node-up for what is new or has changed shape, node-down for what has gone, by comparing with the last look."""
    known = {r.name: r for r in world.node_rows(connection) if r.cluster == seen.cluster}
    up = {name for name, row in known.items() if row.state != NodeState.LOST}
    present = {n.name: n for n in seen.nodes if n.state is not NodeState.LOST}
    for name in sorted(present.keys() - up):
        _node_event(connection, "node-up", present[name], seen.cluster_time, now)
    for name in sorted(up - present.keys()):
        _node_event(connection, "node-down", load_node(known[name].facts), seen.cluster_time, now)


def _node_event(connection: Connection, event: str, node: Node, at: datetime, now: datetime) -> None:
    facts = {
        "model": node.model.name,
        "gpus": len(node.devices),
        "capacity": node.capacity.value,
        "provider": node.provider,
        "region": node.region,
    }
    ledger.add_usage(
        connection,
        id=f"{event}/{node.name}/{at.isoformat()}",
        at=at,
        event=event,
        node=node.name,
        recorded_at=now,
        facts=facts if event == "node-up" else {},
    )


def meter_pods(
    connection: Connection, pods: dict[tuple[str, int], list[PodSeen]], cluster_time: datetime, now: datetime
) -> None:
    """allocated for pods that are bound, released for pods that have ended, and for pods that are gone."""
    open_use = places.unreleased(connection, {job for job, _ in pods})
    bound: list[tuple[Row[Any], datetime]] = []
    ended: list[tuple[str, int, int, datetime]] = []
    for (job_id, attempt), seen in sorted(pods.items()):
        for pod in sorted(seen, key=lambda p: p.rank):
            held = open_use.get((job_id, attempt, pod.rank), [])
            if pod.bound_at is not None:
                bound += [(use, pod.bound_at) for use in held if use.allocated_at is None]
            if pod.finished_at is not None and held:
                ended.append((job_id, attempt, pod.rank, pod.finished_at))
    _all_allocated(connection, bound, now)
    for job_id, attempt, rank, at in ended:
        _released(connection, job_id, attempt, rank, at, now)


def release_rest(connection: Connection, job_id: str, attempt: int, ranks: int, at: datetime, now: datetime) -> None:
    """Close whatever an ended attempt still has open: its pods went away without saying when."""
    for rank in range(ranks):
        _released(connection, job_id, attempt, rank, at, now)


def _all_allocated(connection: Connection, bound: list[tuple[Row[Any], datetime]], now: datetime) -> None:
    """(assignment, when its pod was bound) of pods that are new. A job we do not know is the reconciler's business."""
    if not bound:
        return
    rows = jobs.get_all(connection, {held.job for held, _ in bound})
    known = [(held, at, rows[held.job]) for held, at in bound if held.job in rows]
    ledger.add_all_usage(connection, [_allocated(held, at, row, now) for held, at, row in known])
    places.mark_allocated(connection, {held.id: at for held, at, _ in known})


def _allocated(held: Row[Any], at: datetime, row: JobRow, now: datetime) -> dict[str, Any]:
    return {
        "id": f"allocated/{held.job}/{held.attempt}/{held.id}",
        "at": at,
        "event": "allocated",
        "node": held.node,
        "recorded_at": now,
        "job": held.job,
        "attempt": held.attempt,
        "gpu": held.gpu,
        "team": row.job.team,
        "project": row.job.project,
        "facts": {"quota": held.quota_mark, "priority": row.job.priority, **_part(held)},
    }


def _part(held: Row[Any]) -> dict[str, Any]:
    if held.kind == "slice":
        return {"profile": held.profile, "start": held.start}
    if held.kind == "share":
        return {"fraction": f"{held.milli / 1000:g}"}
    return {}


def _released(connection: Connection, job_id: str, attempt: int, rank: int, at: datetime, now: datetime) -> None:
    for held in places.held_and_metered(connection, job_id, attempt, rank):
        facts = {"start": held.start} if held.kind == "slice" else {}
        ledger.add_usage(
            connection,
            id=f"released/{job_id}/{attempt}/{held.id}",
            at=max(at, held.allocated_at),
            event="released",
            node=held.node,
            recorded_at=now,
            job=job_id,
            attempt=attempt,
            gpu=held.gpu,
            facts=facts,
        )
        places.mark(connection, held.id, released_at=at)
