"""A change file (docs/formats.md, section 1): what is added to, taken from and altered in a fleet, hypothetically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gpufleet.formats.cell import Cell, Fields, read, read_text, unique
from gpufleet.formats.scenario_jobs import read_pending
from gpufleet.formats.scenario_memory import read_points
from gpufleet.formats.scenario_nodes import MOST_GPUS_IN_ALL, read_nodes, read_queues
from gpufleet.model.hardware import NodeState
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job
from gpufleet.scheduling.what_if import Change

VERSION = 1
KEYS = ("version", "add_nodes", "remove_nodes", "node_states", "queues", "memory_points", "submit", "cancel")


def load_change(source: Path | str, snapshot: Snapshot) -> Change:
    """The change to this fleet: of a file where `source` is a Path, else of the text itself.

    Raises Invalid that names file, line and key: also for a node, job or queue that the fleet has not, or has already.
    """
    if isinstance(source, Path):
        return _change(read_text(source), str(source), snapshot)
    return _change(source, "change", snapshot)


def _change(text: str, file: str, snapshot: Snapshot) -> Change:
    fields = read(text, file).fields(KEYS)
    if fields["version"].integer() != VERSION:
        raise fields["version"].wrong(f"version {fields['version'].shown} is not known; this is version {VERSION}.")
    nodes = {n.name for n in snapshot.nodes}
    jobs = [*(r.job for r in snapshot.running), *(p.job for p in snapshot.pending)]
    cancel = _known(fields.cells("cancel"), {j.id for j in jobs}, "job")
    remove = _known(fields.cells("remove_nodes"), nodes, "node")
    points = read_points(fields.cells("memory_points"))
    change = Change(
        add_nodes=read_nodes(fields.cells("add_nodes"), snapshot.levels),
        remove_nodes=remove,
        node_states=fields.get("node_states", lambda c: _states(c, nodes - set(remove)), ()),
        queues=_queues(fields.cells("queues"), snapshot.queues),
        submit=tuple(read_pending(c, snapshot.levels, snapshot.at, points) for c in fields.cells("submit")),
        cancel=cancel,
    )
    _check_nodes(fields, change, nodes, sum(len(n.devices) for n in snapshot.nodes))
    _check_submitted(fields, change, {j.id for j in jobs} - set(cancel))
    _check_queues(fields, change, snapshot)
    return change


def _known(cells: Sequence[Cell], known: Iterable[str], what: str) -> tuple[str, ...]:
    """Names, each once and each of something that is there."""
    there, found = set(known), [(c.text(), c) for c in cells]
    unique(found, what)
    for name, cell in found:
        if name not in there:
            raise cell.wrong(f"there is no {what} {cell.shown} to change.")
    return tuple(name for name, _ in found)


def _states(cell: Cell, nodes: set[str]) -> tuple[tuple[str, NodeState], ...]:
    found = []
    for key, value in cell.pairs():
        if key.text() not in nodes:
            raise value.wrong(f"there is no node {key.shown} to change.")
        found.append((key.text(), value.choice(NodeState)))
    return tuple(found)


def _queues(cells: list[Cell], before: tuple[Queue, ...]) -> tuple[Queue, ...]:
    named = {c.fields(_keys(c))["name"].text() for c in cells}
    return tuple(q for q in read_queues(cells, before) if q.name in named)


def _keys(cell: Cell) -> list[str]:
    return [key.text() for key, _ in cell.pairs()]


def _check_nodes(fields: Fields, change: Change, nodes: set[str], gpus: int) -> None:
    """No added node has the name of one that stays; the whole is not larger than a scenario may be."""
    twice = {n.name for n in change.add_nodes} & (nodes - set(change.remove_nodes))
    if twice:
        raise fields["add_nodes"].wrong(f"the fleet has a node '{min(twice)}' already.")
    if change.add_nodes and gpus + sum(len(n.devices) for n in change.add_nodes) > MOST_GPUS_IN_ALL:
        raise fields["add_nodes"].wrong(f"the fleet would have more than {MOST_GPUS_IN_ALL} GPUs.")


def _check_submitted(fields: Fields, change: Change, jobs: set[str]) -> None:
    cells = [c.fields(_keys(c))["job"] for c in fields.cells("submit")]
    unique([(c.text(), c) for c in cells], "job")
    for cell in cells:
        if cell.text() in jobs:
            raise cell.wrong(f"the fleet has a job {cell.shown} already; cancel it, or take another name.")


def _check_queues(fields: Fields, change: Change, snapshot: Snapshot) -> None:
    """Every job, old or new, is in a leaf; a file that changes nothing about queues cannot break that for old ones."""
    queues = {q.name: q for q in (*snapshot.queues, *change.queues)}
    parents = {q.parent for q in queues.values()}
    for pending, cell in zip(change.submit, fields.cells("submit"), strict=True):
        _check_leaf(pending, queues, parents, cell.fields(_keys(cell))["queue"].wrong)
    for name in sorted({j.queue for j in _stay(snapshot, change)} & parents if change.queues else ()):
        raise fields["queues"].wrong(f"queue '{name}' has jobs, so it cannot get children; jobs go to leaves.")


def _check_leaf(
    pending: Pending, queues: dict[str, Queue], parents: set[str | None], wrong: Callable[[str], Exception]
) -> None:
    name, queue = pending.job.id, pending.job.queue
    if queue not in queues:
        raise wrong(f"{name} is in queue '{queue}', which does not exist.")
    if queue in parents:
        raise wrong(f"{name} is in queue '{queue}', which has children; jobs go to leaves.")


def _stay(snapshot: Snapshot, change: Change) -> list[Job]:
    jobs = [*(r.job for r in snapshot.running), *(p.job for p in snapshot.pending)]
    return [j for j in jobs if j.id not in change.cancel]
