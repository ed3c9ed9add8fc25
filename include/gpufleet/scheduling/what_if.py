"""What a change would make different: the same pass on the fleet as it is and on the fleet as it would be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from gpufleet.model.hardware import Device, MigInstance, Node, NodeState
from gpufleet.model.plan import CapacityRequest, Eviction, Move, Placement, Plan, Repartition, Waiting
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.scheduling.planner import run_pass
from gpufleet.scheduling.replay import asks_again

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """A hypothetical. `queues` are as they would be: one whose name exists takes its place, any other is new.

    A cancelled job is gone before anything else is looked at, so its name is free for a submitted one.
    """

    add_nodes: tuple[Node, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    node_states: tuple[tuple[str, NodeState], ...] = ()
    queues: tuple[Queue, ...] = ()
    submit: tuple[Pending, ...] = ()
    cancel: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """Entries that only one of the two plans has."""

    added: tuple[T, ...] = ()
    removed: tuple[T, ...] = ()


@dataclass(frozen=True, slots=True)
class Requeued:
    """A running job whose node is removed or lost: all its pods end, it waits again. `restarts` = the plan's answer."""

    job: str
    nodes: tuple[str, ...]
    restarts: Placement | None = None


@dataclass(frozen=True, slots=True)
class NewPlace:
    """A job that starts with and without the change, on other devices."""

    job: str
    before: Placement
    after: Placement


@dataclass(frozen=True, slots=True)
class NewWait:
    """A waiting job whose reason or position changes; None on the side on which it does not wait."""

    job: str
    before: Waiting | None
    after: Waiting | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What only the change brings about. `snapshot` and `plan` are the fleet and the plan with it."""

    snapshot: Snapshot
    plan: Plan
    starts: tuple[Placement, ...]
    no_longer_starts: tuple[Placement, ...]
    elsewhere: tuple[NewPlace, ...]
    requeued: tuple[Requeued, ...]
    cancelled: tuple[str, ...]
    evictions: Delta[Eviction]
    moves: Delta[Move]
    repartitions: Delta[Repartition]
    waiting: tuple[NewWait, ...]
    capacity_requests: Delta[CapacityRequest]

    @property
    def is_empty(self) -> bool:
        """Both plans say the same."""
        deltas = (self.evictions, self.moves, self.repartitions, self.capacity_requests)
        jobs = (self.starts, self.no_longer_starts, self.elsewhere, self.requeued, self.cancelled, self.waiting)
        return not any(jobs) and not any(d.added or d.removed for d in deltas)


def what_if(snapshot: Snapshot, change: Change, policy: SchedulingPolicy, now: datetime) -> Difference:
    """The difference of the plan with the change to the plan without it. Pure, as the pass is."""
    hypothetical = changed(snapshot, change)
    before, after = run_pass(snapshot, policy, now), run_pass(hypothetical, policy, now)
    old, new = {p.job: p for p in before.placements}, {p.job: p for p in after.placements}
    back = _stopped_by(snapshot, change)
    again = {r.job.id for r in back}
    return Difference(
        hypothetical,
        after,
        starts=tuple(p for name, p in new.items() if name not in old and name not in again),
        no_longer_starts=tuple(p for name, p in old.items() if name not in new and name not in change.cancel),
        elsewhere=tuple(
            NewPlace(name, old[name], p) for name, p in new.items() if name in old and old[name].pods != p.pods
        ),
        requeued=tuple(Requeued(r.job.id, tuple(sorted({p.node for p in r.places})), new.get(r.job.id)) for r in back),
        cancelled=tuple(sorted(change.cancel)),
        evictions=_delta(before.evictions, after.evictions, lambda e: (e.job, e.for_job, e.ranks)),
        moves=_delta(before.moves, after.moves, lambda m: (m.job, m.for_job, m.places)),
        repartitions=_delta(before.repartitions, after.repartitions, lambda r: r),
        waiting=_waiting(before, after),
        capacity_requests=_delta(before.capacity_requests, after.capacity_requests, lambda r: r),
    )


def changed(snapshot: Snapshot, change: Change) -> Snapshot:
    """The fleet as it would be. Work on nodes that are removed or lost waits again, as after the loss of a node."""
    models = {n.name: n.model.name for n in snapshot.nodes}
    back = _stopped_by(snapshot, change)
    gone = {r.job.id for r in back} | set(change.cancel)
    ends = _ends_of(change)
    states = dict(change.node_states)
    left = _instances_left(snapshot, gone)
    stay = tuple(
        replace(n, state=states.get(n.name, n.state), devices=_devices(n, left))
        for n in snapshot.nodes
        if n.name not in ends.removed
    )
    named = {q.name for q in change.queues}
    return replace(
        snapshot,
        nodes=stay + change.add_nodes,
        queues=tuple(q for q in snapshot.queues if q.name not in named) + change.queues,
        running=tuple(r for r in snapshot.running if r.job.id not in gone and not _leaves(r, ends.all)),
        pending=(
            *(p for p in snapshot.pending if p.job.id not in change.cancel),
            *(Pending(asks_again(r, models)) for r in back),
            *change.submit,
        ),
    )


def _instances_left(snapshot: Snapshot, gone: set[str]) -> dict[tuple[str, int], set[MigInstance]]:
    """MIG instances outlive the work that used them; by node and GPU."""
    found: dict[tuple[str, int], set[MigInstance]] = {}
    for run in snapshot.running:
        for place in run.places if run.job.id in gone else ():
            for piece in place.slices:
                found.setdefault((place.node, piece.gpu), set()).add(piece.instance)
    return found


def _devices(node: Node, left: dict[tuple[str, int], set[MigInstance]]) -> tuple[Device, ...]:
    if not any(name == node.name for name, _ in left):
        return node.devices
    return tuple(
        replace(d, instances=tuple(sorted({*d.instances, *left.get((node.name, d.index), ())}))) for d in node.devices
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """Nodes on which everything ends."""

    removed: frozenset[str]
    all: frozenset[str]


def _ends_of(change: Change) -> _Ends:
    lost = frozenset(name for name, state in change.node_states if state is NodeState.LOST)
    removed = frozenset(change.remove_nodes)
    return _Ends(removed, removed | lost)


def _stopped_by(snapshot: Snapshot, change: Change) -> list[Running]:
    """Whom the loss of nodes puts back into the queue; who is leaving anyway, or cancelled, is not among them."""
    ends = _ends_of(change).all
    hit = [r for r in snapshot.running if not r.leaving and r.job.id not in change.cancel]
    return sorted((r for r in hit if any(p.node in ends for p in r.places)), key=lambda r: r.job.id)


def _leaves(run: Running, ends: frozenset[str]) -> bool:
    return run.leaving and any(p.node in ends for p in run.places)


def _delta(before: Iterable[T], after: Iterable[T], key: Callable[[T], Hashable]) -> Delta[T]:
    old, new = {key(e): e for e in before}, {key(e): e for e in after}
    return Delta(
        tuple(e for k, e in new.items() if k not in old),
        tuple(e for k, e in old.items() if k not in new),
    )


def _waiting(before: Plan, after: Plan) -> tuple[NewWait, ...]:
    """In the order of the line with the change, then those that wait no more."""
    old, new = {w.job: w for w in before.waiting}, {w.job: w for w in after.waiting}
    names = [*new, *(name for name in old if name not in new)]
    pairs = [NewWait(name, old.get(name), new.get(name)) for name in names]
    return tuple(p for p in pairs if _standing(p.before) != _standing(p.after))


def _standing(entry: Waiting | None) -> tuple[object, ...] | None:
    return None if entry is None else (entry.reason, entry.position, entry.queue_position)
