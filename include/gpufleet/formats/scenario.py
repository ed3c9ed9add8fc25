"""A scenario file (docs/formats.md, section 1): the fleet, its queues and jobs at one instant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as fields_of
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpufleet.formats.cell import Cell, Fields, names, read, read_text, unique
from gpufleet.formats.occupancy import impossible
from gpufleet.formats.scenario_jobs import read_pending, read_running
from gpufleet.formats.scenario_memory import read_points
from gpufleet.formats.scenario_nodes import read_nodes, read_queues
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.quota.report import capacity
from gpufleet.units import GpuAmount

VERSION = 1
KEYS = ("version", "at", "levels", "nodes", "queues", "running", "pending", "policy", "memory_points")
POLICY_KEYS = tuple(f.name for f in fields_of(SchedulingPolicy))
READERS: Mapping[type, Callable[[Cell], Any]] = {
    timedelta: Cell.span,
    bool: Cell.boolean,
    int: Cell.integer,
    float: lambda cell: float(cell.number()),
}
"""How a knob of the policy is read, by the kind of its default."""


def load(source: Path | str) -> tuple[Snapshot, SchedulingPolicy]:
    """The snapshot and policy of a scenario: of a file where `source` is a Path, else of the text itself."""
    if not isinstance(source, Path):
        return loads(source, "scenario")
    return loads(read_text(source), str(source))


def loads(text: str, file: str) -> tuple[Snapshot, SchedulingPolicy]:
    """The snapshot and policy of a scenario's text; errors speak of `file`."""
    fields = read(text, file).fields(KEYS)
    if fields["version"].integer() != VERSION:
        raise fields["version"].wrong(f"version {fields['version'].shown} is not known; this is version {VERSION}.")
    levels = fields.get("levels", _levels, ())
    at = fields["at"].instant()
    nodes = read_nodes(fields.cells("nodes"), levels)
    queues = read_queues(fields.cells("queues"))
    by_name = {n.name: n for n in nodes}
    running = read_running(fields.cells("running"), by_name, at)
    points = read_points(fields.cells("memory_points"))
    pending = tuple(read_pending(c, levels, at, points) for c in fields.cells("pending"))
    _check_jobs(fields, queues)
    if why := impossible(nodes, running):
        raise fields["nodes" if "nodes" in fields else "running"].wrong(why)
    return Snapshot(at, levels, nodes, queues, running, pending), fields.get("policy", _policy, SchedulingPolicy())


def _levels(cell: Cell) -> tuple[str, ...]:
    found = names(cell)
    unique([(n, c) for n, c in zip(found, cell.cells(), strict=True)], "level")
    if {"node", "cluster"} & set(found):
        raise cell.wrong("'node' and 'cluster' are levels of every fleet and are not listed.")
    return found


def _policy(cell: Cell) -> SchedulingPolicy:
    fields = cell.fields(POLICY_KEYS)
    default = SchedulingPolicy()
    chosen = {key: fields.get(key, READERS[type(getattr(default, key))], getattr(default, key)) for key in POLICY_KEYS}
    return SchedulingPolicy(**chosen)


def _check_jobs(fields: Fields, queues: Iterable[Queue]) -> None:
    """Names are unique over running and pending; every queue exists and is a leaf."""
    leaves, parents = {q.name for q in queues}, {q.parent for q in queues}
    jobs = [c.fields(k for k, _ in _keys(c)) for c in (*fields.cells("running"), *fields.cells("pending"))]
    unique([(j["job"].text(), j["job"]) for j in jobs], "job")
    for job in jobs:
        queue = job["queue"].text()
        if queue not in leaves:
            raise job["queue"].wrong(f"{job['job'].raw} is in queue '{queue}', which does not exist.")
        if queue in parents:
            raise job["queue"].wrong(f"{job['job'].raw} is in queue '{queue}', which has children; jobs go to leaves.")


def _keys(cell: Cell) -> list[tuple[str, Cell]]:
    return [(key.text(), value) for key, value in cell.pairs()]


def warnings(snapshot: Snapshot) -> tuple[str, ...]:
    """What is allowed but probably not meant: more deserved than there is, nodes without a place in the topology."""
    found = []
    have = capacity(snapshot)
    for key in sorted({k for q in snapshot.queues for k, _ in q.deserved}):
        due = sum(a.grains for q in snapshot.queues if q.parent is None for k, a in q.deserved if k == key)
        there = sum(have.values()) if key == ANY_MODEL else have.get(key, 0)
        if due > there:
            found.append(f"queues deserve {GpuAmount(due)} of {key}, the fleet has {GpuAmount(there)}; scaled down.")
    for node in snapshot.nodes:
        if len([p for p in node.position if p]) < len(snapshot.levels):
            found.append(f"{node.name} has no label for every level; it is treated as a domain of its own.")
    return tuple(found)
