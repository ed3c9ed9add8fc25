"""One running pod moved so that a pod that does not fit does: the smallest that helps, within a budget.

A move happens only if the moved pod has a free place elsewhere at once. Budget: so many moves per pod placed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import PodSet, Share, Whole
from gpufleet.placement.demand import take
from gpufleet.placement.ledger import NodeBook
from gpufleet.placement.pool import pool_of
from gpufleet.placement.worth import pick
from gpufleet.simulation.openb.engine import JOB, Engine, pod_set
from gpufleet.simulation.openb.trace import Request

TRIES = 12
"""Candidates tried for one pod, the smallest first."""


class Mover:
    """Wraps an engine; `share` is the part of placed pods that may be moved."""

    def __init__(self, engine: Engine, share: float) -> None:
        self._engine, self._share = engine, share
        self._held: dict[str, list[tuple[PodPlace, Request]]] = {}
        self.placed = self.moved = 0

    def place(self, request: Request) -> bool:
        """Place the pod, by a move where nothing else helps."""
        found = self._engine.place(request)
        if found is None:
            found = self._by_move(request) if self.moved + 1 <= self._share * self.placed else None
        if found is None:
            return False
        self.note(found, request)
        self.placed += 1
        return True

    def note(self, place: PodPlace, request: Request) -> None:
        """This pod runs there and may be moved."""
        self._held.setdefault(place.node, []).append((place, request))

    def _by_move(self, request: Request) -> PodPlace | None:
        pod = pod_set(request)
        for tries, (held, other) in enumerate(
            sorted(self._helpful(request, pod), key=lambda c: (c[1].total, c[0].node))
        ):
            if tries == TRIES:
                return None
            if found := self._swap(pod, held, other):
                return found
        return None

    def _helpful(self, request: Request, pod: PodSet) -> Iterator[tuple[PodPlace, Request]]:
        """Pods smaller than this one without which it would fit where they are."""
        engine = self._engine
        pool = pool_of(engine.ledger, engine.topology, engine.fitting(request.models))
        # No card is freer than the largest hole, and no larger pod finds a place: less than this cannot become enough.
        almost = request.milli - int(pool.now.milli.max(initial=0))
        for row in np.flatnonzero((pool.now.milli >= max(almost, 0)).sum(1) >= request.gpus).tolist():
            name, book = pool.names[row], pool.books[row]
            for held, other in self._held.get(name, ()):
                if other.total < request.total and _would_fit(book, pod, held):
                    yield held, other

    def _swap(self, pod: PodSet, held: PodPlace, other: Request) -> PodPlace | None:
        """Take the other pod away, place this one there, find the other a new place; or leave all as it was."""
        engine, moved = self._engine, pod_set(other)
        ledger = engine.ledger
        mark = ledger.mark()
        ledger.drop(held, JOB.id)
        here = pick(pool_of(ledger, engine.topology, engine.alone(held.node)), pod, JOB)
        if here is not None:
            mine = take(ledger, ledger.books[held.node], pod, 0, JOB.id, here.gpu)
            there = pick(pool_of(ledger, engine.topology, engine.fitting(other.models)), moved, JOB)
            if there is not None:
                new = take(ledger, ledger.books[there.node], moved, 0, JOB.id, there.gpu)
                self._held[held.node].remove((held, other))
                self.note(new, other)
                self.moved += 1
                return mine
        ledger.rollback(mark)
        return None


def _would_fit(book: NodeBook, pod: PodSet, held: PodPlace) -> bool:
    """Whether the node could take the pod with that one gone: host first, then GPUs."""
    if (book.cpu or 0) + (held.cpu or 0) < (pod.cpu or 0):
        return False
    if (book.memory_mib or 0) + (held.memory_mib or 0) < (pod.memory_mib or 0):
        return False
    milli = list(book.milli)
    for card in held.devices:
        milli[card] += 1000 if held.gpus else sum(s.milli for s in held.shares)
    if isinstance(pod.demand, Share):
        return max(milli) >= pod.demand.milli
    return isinstance(pod.demand, Whole) and milli.count(1000) >= pod.demand.gpus
