"""Who is considered next: guarantees first, then the queue least served, then priority, then age."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from gpufleet.model.snapshot import Pending
from gpufleet.scheduling.session import Session

Key = tuple[int, tuple[float, ...], int, float, str]

WITHIN_DESERVED, WITHIN_SHARE, BEYOND = range(3)
NO_SHARE = 1e18
"""Saturation of a queue whose fair share is nothing."""


class Line:
    """All pending jobs in the order in which the pass considers them; it follows what the pass places meanwhile.

    In a queue the order is priority, age, name. Between queues it is fair-share saturation, compared level by level
    from the root, but a job that stays inside what its own leaf deserves goes before all that does not (kueue#13320).
    A head that cannot start holds back nobody of its queue who stands better.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, list[Pending]] = {}
        for pending in sorted(session.snapshot.pending, key=in_queue):
            self._waiting.setdefault(pending.job.queue, []).append(pending)
        self._floor: dict[str, int] = {}
        """By queue: nobody in it stands in a better band than this, until something is given back."""

    def __iter__(self) -> Iterator[Pending]:
        freed, heap = -1, list[tuple[Key, str]]()
        while True:
            if freed != self._session.freed:  # something was given back: some may stand better than before
                freed = self._session.freed
                self._floor.clear()
                heap = [self._entry(name) for name, waiting in self._waiting.items() if waiting]
                heapq.heapify(heap)
            if not heap:
                return
            before, name = heapq.heappop(heap)
            now, _ = self._entry(name)
            if now > before:
                heapq.heappush(heap, (now, name))
                continue
            chosen = self._next(name)
            self._waiting[name].remove(chosen)
            yield chosen
            if self._waiting[name] and freed == self._session.freed:
                heapq.heappush(heap, self._entry(name))

    def _entry(self, name: str) -> tuple[Key, str]:
        return key(self._session, self._next(name)), name

    def _next(self, name: str) -> Pending:
        """The head; or, while a young head cannot start, the first behind it that can or that stands better."""
        waiting = self._waiting[name]
        band = key(self._session, waiting[0])[0]
        if band <= self._floor.get(name, WITHIN_DESERVED) or self._has_aged(waiting[0]):
            return waiting[0]
        better = [p for p in waiting[1:] if key(self._session, p)[0] < band]
        if not better:
            self._floor[name] = band
            return waiting[0]
        return next(p for p in waiting if p is better[0] or self._has_aged(p) or self._session.can_start(p))

    def _has_aged(self, pending: Pending) -> bool:
        """It has waited so long that it may reserve its place: nobody goes past it."""
        session = self._session
        aged = session.now - pending.job.submitted_at >= session.policy.ageing_bound
        return aged and bool(session.possible(pending))


def in_queue(pending: Pending) -> tuple[int, float, str]:
    """The order inside a queue."""
    job = pending.job
    return -job.priority, job.submitted_at.timestamp(), job.id


def places_in_line(considered: Sequence[Pending]) -> list[Pending]:
    """The order to show: as considered, but inside every queue by priority and age."""
    lines: dict[str, Iterator[Pending]] = {}
    for name in {p.job.queue for p in considered}:
        lines[name] = iter(sorted((p for p in considered if p.job.queue == name), key=in_queue))
    return [next(lines[p.job.queue]) for p in considered]


def key(session: Session, pending: Pending) -> Key:
    """Smaller is considered earlier. Of several models the one on which the job stands best counts."""
    standing = min((_standing(session, pending, m) for m in session.possible(pending)), default=(BEYOND, (NO_SHARE,)))
    return (*standing, *in_queue(pending))


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
