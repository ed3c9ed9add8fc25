"""The fleet as a pass leaves it, on which an idea is tried out for real and taken back.

A trial asks for the job's start only after everybody ahead of it in the line has had its turn at what the idea frees:
who only looks at the job itself promises it places that others will have taken. A trial takes milliseconds. What works
in one is proven by a whole pass, as far as time allows: victims and moves of others may still change the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from gpufleet.model.hardware import Node
from gpufleet.model.plan import Plan
from gpufleet.model.snapshot import Pending, PodPlace, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import PodSet
from gpufleet.scheduling.backfill import keep
from gpufleet.scheduling.order import Line
from gpufleet.scheduling.planner import consider
from gpufleet.scheduling.replay import apply
from gpufleet.scheduling.reservation import Reservation
from gpufleet.scheduling.session import Nodes, Session
from gpufleet.scheduling.what_if import Change, changed

MOST_WORK: Final = 4000
"""Nodes and jobs that all passes of one answer look at together: about a second."""
MOST_PROOFS: Final = 3
"""Tries of one kind of idea that a pass may refuse before the kind is given up."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to let the job start. `at` is when, for a wait; `change` is the same as a what-if, where it can be said."""

    kind: str
    detail: str
    at: datetime | None = None
    change: Change | None = None


class Proof:
    """Whole passes on the changed fleet: the last word on an idea that worked in a trial, as many as time allows."""

    def __init__(self, session: Session, job: str) -> None:
        self._session, self._job = session, job
        fleet = session.snapshot
        self._left = max(1, MOST_WORK // (len(fleet.nodes) + len(fleet.running) + len(fleet.pending) + 1))
        self.unproven = 0
        """Ideas that came after the last pass that time allowed: they rest on their trial alone."""

    def holds(self, option: Option) -> bool:
        """Whether a pass starts the job, at the option's own time. What no change can say rests on its trial."""
        if option.change is None:
            return True
        if not self._left:
            self.unproven += 1
            return True
        self._left -= 1
        now = option.at or self._session.now
        fleet = replace(changed(self._session.snapshot, option.change), at=now)
        session, _ = consider(fleet, self._session.policy, now)
        return self._job in session.placements

    def first(self, options: Iterable[Option]) -> Option | None:
        """The first that holds, of a few."""
        return next((o for o in islice(options, MOST_PROOFS) if self.holds(o)), None)


class Trial:
    """One waiting job on the fleet after the pass. Every try leaves the session as it was."""

    def __init__(self, session: Session, plan: Plan, pending: Pending) -> None:
        self.pending, self.before = pending, session
        self.least = smallest(pending)
        self.snapshot = apply(session.snapshot, plan)
        self.held = tuple(session.reservations[model] for model in sorted(session.reservations))
        self.session = self._session(self.snapshot)

    def _session(self, snapshot: Snapshot) -> Session:
        session = Session(snapshot, self.before.policy, self.before.now)
        for reservation in self.held:
            keep(session, reservation)
        return session

    def with_nodes(self, nodes: Iterable[Node]) -> Session:
        """The same fleet with more nodes."""
        return self._session(replace(self.snapshot, nodes=(*self.snapshot.nodes, *nodes)))

    def with_queues(self, queues: Iterable[Queue]) -> Session:
        """The same fleet with other queues in the place of those of the same name."""
        other = {q.name: q for q in queues}
        return self._session(replace(self.snapshot, queues=tuple(other.get(q.name, q) for q in self.snapshot.queues)))

    @cached_property
    def ahead(self) -> tuple[Pending, ...]:
        """Who is considered before the job when the next pass begins."""
        found = []
        for pending in Line(self.session):
            if pending.job.id == self.pending.job.id:
                break
            found.append(pending)
        return tuple(found)

    def starts(
        self, session: Session | None = None, nodes: Callable[[Pending], Nodes] | None = None
    ) -> tuple[PodPlace, ...] | None:
        """Where the job starts after its elders' turn; None where it does not."""
        session = session or self.session
        mark = session.mark()
        found = self.turn(session, self.least, nodes)
        if found is not None and self.ahead:
            session.rollback(mark)
            self._elders(session, nodes)
            found = self.turn(session, self.least, nodes)
        session.rollback(mark)
        return found

    def _elders(self, session: Session, nodes: Callable[[Pending], Nodes] | None) -> None:
        failed: set[tuple[object, ...]] = set()
        for pending in self.ahead:
            key = session.request("elder", pending)
            if key not in failed and self.turn(session, pending, nodes) is None:
                failed.add(key)  # equal requests fail alike: meanwhile only more is taken

    def turn(
        self, session: Session, asked: Pending, nodes: Callable[[Pending], Nodes] | None = None
    ) -> tuple[PodPlace, ...] | None:
        """Start a job on what is free, and what is held for itself; None, and nothing changed, where it does not fit."""
        mark = session.mark()
        for reservation in self._own(asked.job.id):
            session.ledger.lift(reservation.holder, reservation.nodes)
        places = session.start(asked, nodes(asked) if nodes else None)
        if places is None:
            session.rollback(mark)
        return places

    def _own(self, job: str) -> tuple[Reservation, ...]:
        return tuple(r for r in self.held if r.job == job)

    def fits(self, asked: Pending) -> bool:
        """Whether the job, asked for otherwise, starts on what is free now: its elders were refused that already."""
        mark = self.session.mark()
        found = self.turn(self.session, smallest(asked))
        self.session.rollback(mark)
        return found is not None


def smallest(pending: Pending) -> Pending:
    """The job with no more pods than it needs to run: that it starts is the question, not how large."""
    job, sets, left = pending.job, list[PodSet](), pending.job.least_pods
    for pod_set in job.pod_sets:
        if count := min(left, pod_set.count):
            sets.append(replace(pod_set, count=count))
        left -= count
    return replace(pending, job=replace(job, pod_sets=tuple(sets)))
