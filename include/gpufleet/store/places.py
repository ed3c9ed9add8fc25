"""Where pods are: one `assignment` row per device, slice or share a pod holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, select, update

from gpufleet.model.hardware import MigInstance
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks

Pods = dict[tuple[str, int], tuple[PodPlace, ...]]
"""(job, attempt) -> its pods' places, by rank."""


EMPTY_PLACE: Final[dict[str, Any]] = {"profile": None, "milli": None, "memory_mib": None}
"""Columns that only some kinds of places fill; rows written together name the same columns."""


def place_rows(place: PodPlace) -> Iterator[dict[str, Any]]:
    """The assignment values of one pod."""
    pod = {
        "pod_set": place.pod_set,
        "rank": place.rank,
        "node": place.node,
        "cpu": place.cpu,
        "host_memory_mib": place.memory_mib,
    }
    for gpu in place.gpus:
        yield pod | {"kind": "whole", "gpu": gpu, "start": -1}
    for held in place.slices:
        yield pod | {"kind": "slice", "gpu": held.gpu, "profile": held.instance.profile, "start": held.instance.start}
    for share in place.shares:
        yield pod | {
            "kind": "share",
            "gpu": share.gpu,
            "milli": share.milli,
            "memory_mib": share.memory_mib,
            "start": -1,
        }


def _pod(rows: list[Row[Any]]) -> PodPlace:
    first = rows[0]
    return PodPlace(
        pod_set=first.pod_set,
        rank=first.rank,
        node=first.node,
        gpus=tuple(r.gpu for r in rows if r.kind == "whole"),
        slices=tuple(SliceOn(r.gpu, MigInstance(r.start, r.profile)) for r in rows if r.kind == "slice"),
        shares=tuple(ShareOn(r.gpu, r.milli, r.memory_mib) for r in rows if r.kind == "share"),
        cpu=first.cpu,
        memory_mib=first.host_memory_mib,
    )


def pods(rows: Iterable[Row[Any]]) -> Pods:
    """Assignment rows gathered into pods."""
    by_pod: dict[tuple[str, int, int], list[Row[Any]]] = defaultdict(list)
    for row in rows:
        by_pod[row.job, row.attempt, row.rank].append(row)
    found: dict[tuple[str, int], list[PodPlace]] = defaultdict(list)
    for (job, attempt, _rank), held in sorted(by_pod.items()):
        found[job, attempt].append(_pod(held))
    return {key: tuple(places) for key, places in found.items()}


def live_places(connection: Connection) -> Pods:
    """Every place that is held now."""
    a = t.assignment
    return pods(
        connection.execute(select(a).where(a.c.live).order_by(a.c.job, a.c.attempt, a.c.rank, a.c.gpu, a.c.start))
    )


def held_since(connection: Connection, since: datetime) -> tuple[Row[Any], ...]:
    """Devices, slices and shares held at any time after `since`, each with its job's `queue`."""
    a, j = t.assignment.c, t.job.c
    return tuple(
        connection.execute(
            select(j.queue, a.node, a.kind, a.profile, a.milli, a.allocated_at, a.released_at)
            .join_from(t.job, t.assignment, j.id == a.job)
            .where(a.allocated_at.is_not(None), (a.released_at.is_(None)) | (a.released_at > since))
            .order_by(a.allocated_at, a.job, a.attempt, a.rank, a.gpu, a.start)
        )
    )


def places_of(connection: Connection, job_id: str, attempt: int) -> tuple[PodPlace, ...]:
    """The places of one attempt, held or given back."""
    return places_of_jobs(connection, [job_id]).get((job_id, attempt), ())


def places_of_jobs(connection: Connection, of: Iterable[str]) -> Pods:
    """The places of every attempt of these jobs, held or given back."""
    a = t.assignment
    found: Pods = {}
    for some in chunks(of):
        rows = select(a).where(a.c.job.in_(some)).order_by(a.c.job, a.c.attempt, a.c.rank, a.c.gpu, a.c.start)
        found |= pods(connection.execute(rows))
    return found


def newest_nodes(connection: Connection, of: Iterable[str]) -> dict[str, str]:
    """Each job's node of rank 0 in its newest attempt, running or ended."""
    a = t.assignment
    query = select(a.c.job, a.c.node).where(a.c.job.in_(tuple(of)), a.c.rank == 0).order_by(a.c.attempt)
    return {row.job: row.node for row in connection.execute(query)}


def unreleased(connection: Connection, of: Iterable[str]) -> dict[tuple[str, int, int], list[Row[Any]]]:
    """Assignments of these jobs without a `released` event, by (job, attempt, rank)."""
    a = t.assignment
    found: dict[tuple[str, int, int], list[Row[Any]]] = defaultdict(list)
    for some in chunks(of):
        query = select(a).where(a.c.job.in_(some), a.c.released_at.is_(None)).order_by(a.c.id)
        for row in connection.execute(query):
            found[row.job, row.attempt, row.rank].append(row)
    return dict(found)


def mark(connection: Connection, column: str, instants: Mapping[int, datetime]) -> None:
    """Write `allocated_at` or `released_at` of assignments, by id."""
    if instants:
        a = t.assignment
        change = update(a).where(a.c.id == bindparam("of")).values({column: bindparam("then", type_=a.c[column].type)})
        connection.execute(change, [{"of": id, "then": at} for id, at in instants.items()])


def give_back(connection: Connection, job_id: str, attempt: int) -> None:
    """The places of an ended attempt are free."""
    a = t.assignment
    connection.execute(update(a).where(a.c.job == job_id, a.c.attempt == attempt, a.c.live).values(live=False))
