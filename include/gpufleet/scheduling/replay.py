"""A plan applied to its own snapshot, and whether a fleet comes to rest when that is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpufleet.model.hardware import Device, MigInstance, Node
from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.workload import Job, PodSet
from gpufleet.scheduling.moving import same
from gpufleet.scheduling.planner import run_pass


@dataclass(frozen=True, slots=True)
class Settled:
    """`round` is the first with an empty plan (from 1), None when there was none; `cycle` the rounds that repeat."""

    settled: bool
    round: int | None = None
    cycle: tuple[int, ...] | None = None


def settle(snapshot: Snapshot, policy: SchedulingPolicy, rounds: int) -> Settled:
    """Apply each plan to its snapshot and plan again, time standing still."""
    seen: dict[Snapshot, int] = {}
    for number in range(1, rounds + 1):
        if snapshot in seen:
            return Settled(False, cycle=tuple(range(seen[snapshot], number)))
        seen[snapshot] = number
        plan = run_pass(snapshot, policy, snapshot.at)
        if plan.is_empty:
            return Settled(True, number)
        snapshot = apply(snapshot, plan)
    return Settled(False)


def apply(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The same fleet a moment later: victims wait again, started jobs run, moves and repartitions are done."""
    running, evicted = _running_after(snapshot, plan)
    placed = {p.job: p for p in plan.placements}
    started = [Running(p.job, placed[p.job.id].pods, snapshot.at) for p in snapshot.pending if p.job.id in placed]
    waiting = [p for p in snapshot.pending if p.job.id not in placed]
    everyone = tuple(sorted([*running, *started], key=lambda r: r.job.id))
    before, after = _by_node(snapshot.running), _by_node(everyone)
    return replace(
        snapshot,
        nodes=tuple(_node_after(n, before.get(n.name, ()), after.get(n.name, ()), plan) for n in snapshot.nodes),
        running=everyone,
        pending=tuple(sorted([*waiting, *evicted], key=lambda p: p.job.id)),
    )


def _running_after(snapshot: Snapshot, plan: Plan) -> tuple[list[Running], list[Pending]]:
    """Who still runs, where; and who was stopped as a whole and waits again, for the model it had."""
    moved = {(m.job, p.rank): p for m in plan.moves for p in m.places}
    models = {n.name: n.model.name for n in snapshot.nodes}
    stay, evicted = [], []
    for run in (r for r in snapshot.running if not r.leaving):
        gone = _gone(run, plan)
        places = tuple(moved.get((run.job.id, p.rank), p) for p in run.places if p.rank not in gone)
        if places:
            stay.append(replace(run, places=places))
        else:
            evicted.append(Pending(asks_again(run, models)))
    return stay, evicted


def _gone(run: Running, plan: Plan) -> set[int]:
    found: set[int] = set()
    for eviction in plan.evictions:
        if eviction.job == run.job.id:
            found.update(p.rank for p in run.places if eviction.ranks is None or p.rank in eviction.ranks)
    return found


def asks_again(run: Running, models: dict[str, str]) -> Job:
    """The stopped job as a request: what it had, on the model it had."""
    if run.job.models or run.job.pods != len(run.places):
        return run.job
    sets = tuple(PodSet(1, same(p), p.cpu, p.memory_mib) for p in run.places)
    return replace(
        run.job, pod_sets=sets, models=tuple(sorted({models[p.node] for p in run.places if p.node in models}))
    )


def _node_after(node: Node, before: Sequence[PodPlace], after: Sequence[PodPlace], plan: Plan) -> Node:
    if not _is_sliced(node, before, after, plan):
        return node
    exists = {d.index: set(d.instances) for d in node.devices}
    for place in before:
        for piece in place.slices:
            exists[piece.gpu].add(piece.instance)
    for change in plan.repartitions:
        if change.node == node.name:
            exists[change.gpu] = (exists[change.gpu] - set(change.destroy)) | set(change.create)
    used: dict[int, set[MigInstance]] = {}
    for place in after:
        for piece in place.slices:
            used.setdefault(piece.gpu, set()).add(piece.instance)
    devices = tuple(
        Device(d.index, tuple(sorted(exists[d.index] - used.get(d.index, set()))), d.healthy) for d in node.devices
    )
    return replace(node, devices=devices)


def _is_sliced(node: Node, before: Sequence[PodPlace], after: Sequence[PodPlace], plan: Plan) -> bool:
    """Whether there are, were or will be slices on it."""
    remade = any(change.node == node.name for change in plan.repartitions)
    return remade or any(d.instances for d in node.devices) or any(p.slices for p in (*before, *after))


def _by_node(runs: Iterable[Running]) -> dict[str, list[PodPlace]]:
    found: dict[str, list[PodPlace]] = {}
    for run in runs:
        for place in run.places:
            found.setdefault(place.node, []).append(place)
    return found
