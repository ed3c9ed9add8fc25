"""Backfill: a head that has waited too long reserves its place; others use it only if they end before.

EASY backfill, as Slurm does it, for each GPU type apart (src/plugins/sched/backfill).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Kind
from gpufleet.placement import Gang, place_gang
from gpufleet.scheduling.reservation import Reservation
from gpufleet.scheduling.session import Session

NEVER = timedelta.max


def backfill(session: Session, pending: Pending) -> bool:
    """Start the job on what a reservation holds, if it ends before the reserved start."""
    runtime = pending.job.runtime
    if runtime is None:
        return False
    models = session.eligible(pending)
    opened = [
        r for m, r in session.reservations.items() if m in models and r.start and session.now + runtime <= r.start
    ]
    if not opened:
        return False
    mark = session.mark()
    for reservation in opened:
        session.ledger.lift(reservation.holder, reservation.nodes)
    places = session.start(pending)
    if places is None:
        session.rollback(mark)
        return False
    for reservation in opened:
        keep(session, reservation)
    session.commit(pending, places)
    return True


def keep(session: Session, reservation: Reservation) -> None:
    """Hold what is free of the reserved places."""
    for place in reservation.places:
        session.ledger.hold(place, reservation.holder)


def reserve(session: Session, pending: Pending) -> None:
    """Give an aged job that nothing could place a reservation, unless its GPU type has one already."""
    job = pending.job
    if not session.policy.reserve or session.now - job.submitted_at < session.policy.ageing_bound:
        return
    nodes = session.eligible(pending)
    if any(model in session.reservations for model in nodes):
        return
    allowed = {m: n for m, n in nodes.items() if session.quota_allows(job, m, session.grains(job, m, job.least_pods))}
    if allowed and (found := _earliest(session, Gang(job, job.least_pods, allowed))):
        session.reservations[session.nodes[found.places[0].node].model.name] = found
        keep(session, found)


def _earliest(session: Session, gang: Gang) -> Reservation | None:
    """The first moment at which the gang fits: running jobs end as declared, those of unknown end after all others."""
    ends = _ends(session)
    low, high = 0, len(ends)
    if _place_after(session, gang, ends) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _place_after(session, gang, ends[:middle]) else (middle + 1, high)
    places = _place_after(session, gang, ends[:low])
    assert places is not None, "the search ends where the gang fits"
    last = ends[low - 1][0] if low else session.now
    return Reservation(gang.job.id, places, last)


End = tuple[datetime | None, str, tuple[PodPlace, ...]]


def _ends(session: Session) -> list[End]:
    """When whose places come free. A service does not end; a job past its declared time ends at an unknown moment."""
    known: list[End] = []
    unknown: list[tuple[datetime, str, tuple[PodPlace, ...]]] = []
    for name, run in session.running.items():
        end = run.started_at + run.job.runtime if run.job.runtime else None
        if end is not None and end > session.now:
            known.append((end, name, session.held[name]))
        elif run.job.kind is not Kind.INFERENCE:
            unknown.append((run.started_at, name, session.held[name]))
    known.sort(key=lambda e: (e[0] or session.now, e[1]))
    return [*known, *((None, name, places) for _, name, places in sorted(unknown, key=lambda u: u[:2]))]


def _place_after(session: Session, gang: Gang, ended: Sequence[End]) -> tuple[PodPlace, ...] | None:
    mark = session.mark()
    for _, name, places in ended:
        for place in places:
            session.ledger.drop(place, name)
    found = place_gang(session.ledger, session.topology, gang)
    session.rollback(mark)
    return found
