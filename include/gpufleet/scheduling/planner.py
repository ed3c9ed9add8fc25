"""One scheduling pass: every waiting job in order, each by the least disruptive action that starts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from gpufleet.model.plan import CapacityRequest, Plan, Reason, Waiting
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.placement import repartitions
from gpufleet.scheduling.allocate import allocate
from gpufleet.scheduling.backfill import backfill, reserve
from gpufleet.scheduling.consolidate import consolidate
from gpufleet.scheduling.leaf_moves import move_to_fewer_leaves
from gpufleet.scheduling.net_gain import net_gain
from gpufleet.scheduling.order import Line, places_in_line
from gpufleet.scheduling.preempt import preempt
from gpufleet.scheduling.reasons import Doctor
from gpufleet.scheduling.reclaim import reclaim
from gpufleet.scheduling.session import Session

Action = Callable[[Session, Pending], bool]

ACTIONS: Final[tuple[Action, ...]] = (
    allocate,  # disturbs nobody
    backfill,  # borrows what is reserved, and ends before it is needed
    consolidate,  # moves work, ends with everyone still running
    reclaim,  # takes back what was lent to other queues
    preempt,  # inside one queue, by priority
    net_gain,  # small work for a big gang, where the policy asks for it
)

# Reasons more hardware would cure; whether an offering does is found out by what-if (design.md section 9).
BUYABLE: Final = frozenset(
    {
        Reason.NOT_ENOUGH,
        Reason.FRAGMENTED,
        Reason.TOPOLOGY,
        Reason.CAPACITY_TYPE,
        Reason.NO_SUCH_MODEL,
        Reason.TOO_LARGE,
    }
)


def run_pass(snapshot: Snapshot, policy: SchedulingPolicy, now: datetime) -> Plan:
    """What to do now, and a reason for everything that waits. Pure: the same snapshot, the same plan."""
    session, considered = consider(snapshot, policy, now)
    return finish(session, considered)


def decisions(snapshot: Snapshot, policy: SchedulingPolicy, now: datetime) -> Plan:
    """The same pass for who asks for no reasons (a simulation): what to do now, `waiting` and requests left out."""
    return finish(consider(snapshot, policy, now)[0], ())


def consider(snapshot: Snapshot, policy: SchedulingPolicy, now: datetime) -> tuple[Session, list[Pending]]:
    """The pass itself: its decisions, and the pending jobs in the order in which they were considered."""
    session = Session(snapshot, policy, now)
    considered = []
    for pending in Line(session):
        considered.append(pending)
        if not any(action(session, pending) for action in ACTIONS):
            reserve(session, pending)
    for pending in considered if session.freed else ():  # who was refused before something was given back
        if pending.job.id not in session.placements:
            allocate(session, pending)
    move_to_fewer_leaves(session)
    return session, considered


def finish(session: Session, considered: Sequence[Pending]) -> Plan:
    """The decisions as a plan, sorted."""
    left = places_in_line(session, [p for p in considered if p.job.id not in session.placements])
    doctor = Doctor(session)
    waiting = _waiting(doctor, left)
    wanting = zip(left, waiting, strict=True)
    return Plan(
        placements=session.placed(),
        evictions=tuple(sorted(session.evictions, key=lambda e: (e.job, e.for_job))),
        moves=tuple(sorted(session.moves, key=lambda m: (m.job, m.for_job))),
        repartitions=repartitions(session.ledger),
        waiting=waiting,
        capacity_requests=tuple(_request(p) for p, w in wanting if w.reason in BUYABLE and doctor.may_buy(p)),
    )


def _waiting(doctor: Doctor, left: Sequence[Pending]) -> tuple[Waiting, ...]:
    in_queue, found = dict[str, int](), []
    for position, pending in enumerate(left, start=1):
        queue = pending.job.queue
        in_queue[queue] = in_queue.get(queue, 0) + 1
        why = doctor.why(pending)
        found.append(Waiting(pending.job.id, position, in_queue[queue], why.reason, why.detail, why.unblock))
    return tuple(found)


def _request(pending: Pending) -> CapacityRequest:
    job = pending.job
    return CapacityRequest(job.id, job.pod_sets, job.models, job.topology, job.capacity)
