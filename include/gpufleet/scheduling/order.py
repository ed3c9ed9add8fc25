"""Who is considered next: guarantees first, then the queue least served, then priority, then age."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from gpufleet.model.snapshot import Pending
from gpufleet.scheduling.session import Session

Key = tuple[int, tuple[float, ...], int, float, str]

WITHIN_DESERVED, WITHIN_SHARE, BEYOND = range(3)
NO_SHARE = 1e18
"""Saturation of a queue whose fair share is nothing."""


def line(session: Session) -> Iterator[Pending]:
    """All pending jobs in order. The order follows what the caller places meanwhile.

    In a queue the order is fixed: priority, age, name. Between queues it is fair-share saturation, compared level by
    level from the root, but a job that stays inside what its own leaf deserves goes before all that does not
    (kueue#13320).
    """
    queues: dict[str, list[Pending]] = {}
    for pending in session.snapshot.pending:
        queues.setdefault(pending.job.queue, []).append(pending)
    for waiting in queues.values():
        waiting.sort(key=_in_queue, reverse=True)
    heap: list[tuple[Key, str]] = []
    freed = -1
    while True:
        if freed != session.freed:  # something was given back: keys may have become smaller
            freed = session.freed
            heap = [(key(session, waiting[-1]), name) for name, waiting in queues.items() if waiting]
            heapq.heapify(heap)
        if not heap:
            return
        before, name = heapq.heappop(heap)
        now = key(session, queues[name][-1])
        if now > before:
            heapq.heappush(heap, (now, name))
            continue
        chosen = queues[name].pop()
        yield chosen
        if queues[name] and freed == session.freed:
            heapq.heappush(heap, (key(session, queues[name][-1]), name))


def _in_queue(pending: Pending) -> tuple[int, float, str]:
    job = pending.job
    return -job.priority, job.submitted_at.timestamp(), job.id


def key(session: Session, pending: Pending) -> Key:
    """Smaller is considered earlier. Of several models the one on which the job stands best counts."""
    standing = min((_standing(session, pending, m) for m in session.eligible(pending)), default=(BEYOND, (NO_SHARE,)))
    return (*standing, *_in_queue(pending))


def _standing(session: Session, pending: Pending, model: str) -> tuple[int, tuple[float, ...]]:
    job = pending.job
    grains = session.grains(job, model, job.least_pods)
    band = BEYOND
    if session.usage.within((job.queue,), model, grains):
        band = WITHIN_DESERVED
    elif session.rights.within_share((job.queue,), model, grains):
        band = WITHIN_SHARE
    return band, tuple(_saturation(session, queue, model) for queue in reversed(session.tree.chain(job.queue)))


def _saturation(session: Session, queue: str, model: str) -> float:
    share = session.rights.shares.get((queue, model), 0)
    return session.usage.of(queue).get(model, 0) / share if share else NO_SHARE
