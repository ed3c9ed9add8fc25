"""Writes usage events as they are observed: from a pod's binding to its end by the cluster's clock, and nodes up and down.

Each event has an id made from what it tells, so a second look writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from gpufleet.clusters.base import Observation, PodSeen
from gpufleet.model.hardware import Node, NodeState
from gpufleet.store import jobs, ledger, places, world
from gpufleet.store.jobs import JobRow


def meter_nodes(connection: Connection, seen: Observation, now: datetime) -> None:
    """node-up for what is new or has changed shape, node-down for what has gone, by comparing with the last look."""
    known = world.nodes_of(connection, seen.cluster)
    present = {n.name: n for n in seen.nodes if n.state is not NodeState.LOST}
    for name in sorted(present.keys() - {n for n, old in known.items() if old.state is not NodeState.LOST}):
        _node_event(connection, "node-up", present[name], seen.cluster_time, now)
    for name, old in sorted(known.items()):
        if old.state is not NodeState.LOST and name not in present:
            _node_event(connection, "node-down", old, seen.cluster_time, now)


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


def meter_pods(connection: Connection, pods: Mapping[tuple[str, int], Iterable[PodSeen]], now: datetime) -> None:
    """allocated for pods that are bound, released for pods that have ended."""
    open_ = places.unreleased(connection, {job for job, _ in pods})
    bound = {job for (job, _, _), rows in open_.items() if any(held.allocated_at is None for held in rows)}
    asked = jobs.get_many(connection, bound)
    found = _Metered()
    for (job, attempt), seen in sorted(pods.items()):
        for pod in sorted(seen, key=lambda p: p.rank):
            for held in open_.get((job, attempt, pod.rank), ()):
                _use(found, held, asked.get(job), pod)
    found.write(connection, now)


def release_rest(connection: Connection, job_id: str, attempt: int, at: datetime, now: datetime) -> None:
    """Close whatever an ended attempt still has open: its pods went away without saying when."""
    found = _Metered()
    for (_, number, _), rows in sorted(places.unreleased(connection, [job_id]).items()):
        for held in rows:
            if number == attempt and held.allocated_at is not None:
                found.released(held, held.allocated_at, at)
    found.write(connection, now)


def _use(found: _Metered, held: Row[Any], row: JobRow | None, pod: PodSeen) -> None:
    """What one look at a pod says of one device, slice or share it was given."""
    since = held.allocated_at
    if since is None and row is not None and pod.bound_at is not None:
        found.allocated(held, row, pod.bound_at)
        since = pod.bound_at
    if since is not None and pod.finished_at is not None:
        found.released(held, since, pod.finished_at)


class _Metered:
    """Events, and the marks that keep them from being written twice."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._since: dict[int, datetime] = {}
        self._until: dict[int, datetime] = {}

    def allocated(self, held: Row[Any], row: JobRow, at: datetime) -> None:
        facts = {"quota": held.quota_mark, "priority": row.job.priority, **_part(held)}
        whose = {"team": row.job.team, "project": row.job.project}
        self._events.append(_event("allocated", held, at) | whose | {"facts": facts})
        self._since[held.id] = at

    def released(self, held: Row[Any], since: datetime, at: datetime) -> None:
        facts = {"start": held.start} if held.kind == "slice" else {}
        self._events.append(_event("released", held, max(at, since)) | {"facts": facts})
        self._until[held.id] = at

    def write(self, connection: Connection, now: datetime) -> None:
        ledger.add_usages(connection, self._events, now)
        places.mark(connection, "allocated_at", self._since)
        places.mark(connection, "released_at", self._until)


def _event(event: str, held: Row[Any], at: datetime) -> dict[str, Any]:
    return {
        "id": f"{event}/{held.job}/{held.attempt}/{held.id}",
        "at": at,
        "event": event,
        "node": held.node,
        "job": held.job,
        "attempt": held.attempt,
        "gpu": held.gpu,
    }


def _part(held: Row[Any]) -> dict[str, Any]:
    if held.kind == "slice":
        return {"profile": held.profile, "start": held.start}
    if held.kind == "share":
        return {"fraction": f"{held.milli / 1000:g}"}
    return {}
