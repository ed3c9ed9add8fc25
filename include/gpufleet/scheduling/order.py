"""Who is considered next: guarantees first, then the queue least served, then priority, then age."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from gpufleet.model.snapshot import Pending
from gpufleet.scheduling.session import Session

Standing = tuple[int, tuple[float, ...]]
Asks = tuple[tuple[str, int], ...]
Key = tuple[int, tuple[float, ...], int, float, str]

WITHIN_DESERVED, WITHIN_SHARE, BEYOND = range(3)
NO_SHARE = 1e18
"""Saturation of a queue whose fair share is nothing."""


class Waiter(NamedTuple):
    """A waiting job with what of it the order looks at."""

    pending: Pending
    place: tuple[int, float, str]
    asks: Asks
    """(GPU model, grains of its smallest form there) for every model of which the fleet has enough."""
    aged: bool
    """It has waited so long that it may reserve its place: nobody goes past it."""


class Line:
    """All pending jobs in the order in which the pass considers them; it follows what the pass places meanwhile.

    In a queue the order is priority, age, name. Between queues it is fair-share saturation, compared level by level
    from the root, but a job that stays inside what its own leaf deserves goes before all that does not (kueue#13320).
    A head that cannot start holds back nobody of its queue who stands better.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, list[Waiter]] = {}
        for pending in sorted(session.snapshot.pending, key=partial(in_queue, session)):
            self._waiting.setdefault(pending.job.queue, []).append(self._waiter(pending))
        self._asks = {name: Counter(w.asks for w in waiting) for name, waiting in self._waiting.items()}
        """By queue, how many wait for the same: who stands better is a question of that alone."""
        self._floor: dict[str, int] = {}
        """By queue: nobody in it stands in a better band than this, until something is given back."""
        self._entered: dict[str, int] = {}
        """By queue, the version of its use for which its entry in the heap still holds; -1 where that is not all."""
        self._known: dict[tuple[str, Asks], tuple[int, Standing]] = {}
        """Standings by queue and what is asked, with the version of the queue's use they were found for."""

    def _waiter(self, pending: Pending) -> Waiter:
        session = self._session
        asks = session.asks(pending)
        aged = session.now - pending.job.submitted_at >= session.policy.ageing_bound
        return Waiter(pending, in_queue(session, pending), asks, aged and bool(asks))

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
            chosen = self._waiting[name][0]
            if self._entered.get(name) != self._session.usage.version(name):
                chosen, standing = self._next(name)
                now = (*standing, *chosen.place)
                if now > before:
                    heapq.heappush(heap, (now, name))
                    continue
            self._waiting[name].remove(chosen)
            self._asks[name][chosen.asks] -= 1
            yield chosen.pending
            if self._waiting[name] and freed == self._session.freed:
                heapq.heappush(heap, self._entry(name))

    def _entry(self, name: str) -> tuple[Key, str]:
        chosen, standing = self._next(name)
        head = chosen is self._waiting[name][0]
        is_plain = head and (chosen.aged or standing[0] <= self._floor.get(name, WITHIN_DESERVED))
        # Chosen as the head for reasons that only the queue's own use can change?
        self._entered[name] = self._session.usage.version(name) if is_plain else -1
        return (*standing, *chosen.place), name

    def _next(self, name: str) -> tuple[Waiter, Standing]:
        """The head; or, while a young head cannot start, the first behind it that can or that stands better."""
        waiting = self._waiting[name]
        head = waiting[0]
        standing = self._standing(name, head.asks)
        band = standing[0]
        if band <= self._floor.get(name, WITHIN_DESERVED) or head.aged:
            return head, standing
        if not any(self._band(name, asks) < band for asks, count in self._asks[name].items() if count):
            self._floor[name] = band
            return head, standing
        chosen = next(
            w for w in waiting if self._band(name, w.asks) < band or w.aged or self._session.can_start(w.pending)
        )
        return chosen, self._standing(name, chosen.asks)

    def _band(self, queue: str, asks: Asks) -> int:
        return self._standing(queue, asks)[0]

    def _standing(self, queue: str, asks: Asks) -> Standing:
        """Of several models the one on which the job stands best counts."""
        version, key = self._session.usage.version(queue), (queue, asks)
        known = self._known.get(key)
        if known is None or known[0] != version:
            found = min((_standing(self._session, queue, *ask) for ask in asks), default=(BEYOND, (NO_SHARE,)))
            known = self._known[key] = version, found
        return known[1]


def in_queue(session: Session, pending: Pending) -> tuple[int, float, str]:
    """The order inside a queue: priority, then age (or the response ratio, where the policy says so), then name."""
    job, policy = pending.job, session.policy
    submitted = job.submitted_at.timestamp()
    wait = session.now - job.submitted_at
    if not policy.response_ratio:
        return -job.priority, submitted, job.id
    if wait >= policy.ageing_bound:
        return -job.priority, submitted - AGED_FIRST, job.id
    return -job.priority, -(1 + wait / job.runtime) if job.runtime else -1.0, job.id


AGED_FIRST = 1e12
"""Seconds that put the instants of aged jobs before every response ratio."""


def places_in_line(session: Session, considered: Sequence[Pending]) -> list[Pending]:
    """The order to show: as considered, but inside every queue by its own order."""
    lines: dict[str, list[Pending]] = {}
    for pending in sorted(considered, key=partial(in_queue, session), reverse=True):
        lines.setdefault(pending.job.queue, []).append(pending)
    return [lines[p.job.queue].pop() for p in considered]


def _standing(session: Session, queue: str, model: str, grains: int) -> Standing:
    band = BEYOND
    if session.usage.within((queue,), model, grains):
        band = WITHIN_DESERVED
    elif session.rights.within_share((queue,), model, grains):
        band = WITHIN_SHARE
    return band, tuple(_saturation(session, name, model) for name in reversed(session.tree.chain(queue)))


def _saturation(session: Session, queue: str, model: str) -> float:
    share = session.rights.shares.get((queue, model), 0)
    return session.usage.of(queue).get(model, 0) / share if share else NO_SHARE
