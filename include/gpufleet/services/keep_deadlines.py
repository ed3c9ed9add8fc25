"""Deadline jobs use spot as long as one more interruption could be made good, then only capacity that stays.

The rule is `procurement.demand.promise`: work left, two restarts and what lies between two saves must end before the
deadline. Where there is nothing but spot, spot is better than nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from gpufleet.lifecycle.machine import Disturbed
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.model.hardware import Node, NodeState
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.workload import Job
from gpufleet.procurement.choose import allowed
from gpufleet.procurement.demand import DemandPolicy, Promise, promise
from gpufleet.services.advance import advance
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, places, world
from gpufleet.store.jobs import JobRow

POLICY = DemandPolicy()


def keep_deadlines(fleet: Fleet) -> None:
    """Running jobs that can afford no further interruption save, stop and leave spot."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        late = [row for row in jobs.running_with_deadline(connection) if _is_firm(row, now)]
    if late:
        with fleet.database.write() as connection:
            _leave_spot(connection, fleet, late, now)


def _leave_spot(connection: Connection, fleet: Fleet, late: Iterable[JobRow], now: datetime) -> None:
    nodes = {node.name: node for node in world.nodes(connection)}
    on_sale = _on_sale(connection)
    rows = {row.job.id: row for row in late}
    held = places.places_of_jobs(connection, rows)
    for attempt in jobs.live_attempts_of(connection, rows).values():
        on = {pod.node for pod in held.get((attempt.job, attempt.number), ())}
        spot = tuple(sorted(name for name in on if name in nodes and nodes[name].capacity is CapacityType.SPOT))
        job = rows[attempt.job].job
        if spot and attempt.state == "running" and _restricted(job, nodes.values(), on_sale, now) != job:
            advance(connection, fleet, job.id, Disturbed("leaves spot to keep its deadline", spot), now)


def off_spot(connection: Connection, snapshot: Snapshot) -> Snapshot:
    """Pending jobs that can afford no further interruption ask for capacity that stays."""
    late = {p.job.id for p in snapshot.pending if p.job.deadline is not None}
    if not late:
        return snapshot
    rows, on_sale = jobs.get_many(connection, late), _on_sale(connection)
    firm = {id for id, row in rows.items() if _is_firm(row, snapshot.at)}
    pending = (
        replace(p, job=_restricted(p.job, snapshot.nodes, on_sale, snapshot.at)) if p.job.id in firm else p
        for p in snapshot.pending
    )
    return replace(snapshot, pending=tuple(pending))


def work_left(row: JobRow) -> timedelta | None:
    """By its own progress up to the last save, which is all that an interruption leaves; else its whole runtime."""
    whole, told = row.job.runtime, row.progress or {}
    if whole is None:
        return None
    saved = (told.get("last_save") or told.get("base") or {}).get("step")
    total = told.get("total_steps")
    return whole * (1 - min(saved, total) / total) if saved and total else whole


def _is_firm(row: JobRow, now: datetime) -> bool:
    if row.job.deadline is None:
        return False
    return promise(row.job, work_left(row), now, POLICY) is Promise.FIRM


def _restricted(
    job: Job, nodes: Iterable[Node], on_sale: Sequence[tuple[Offering, datetime | None]], now: datetime
) -> Job:
    """The job without spot, where anything else could ever serve it."""
    asked = job.capacity or tuple(CapacityType)
    stays = replace(job, capacity=tuple(c for c in asked if c is not CapacityType.SPOT))
    if not stays.capacity or stays.capacity == job.capacity:
        return job
    there = any(_serves(node, stays) for node in nodes)
    return stays if there or any(allowed(o, stays, now, held) for o, held in on_sale) else job


def _serves(node: Node, job: Job) -> bool:
    suits = not job.models or node.model.name in job.models
    return suits and node.state is NodeState.READY and node.capacity in job.capacity


def _on_sale(connection: Connection) -> list[tuple[Offering, datetime | None]]:
    return [(offering, held) for offering, _, held in world.offerings(connection)]
