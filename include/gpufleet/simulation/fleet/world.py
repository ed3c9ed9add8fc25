"""The event loop: arrivals and ends in order of time, a decision after each, and what there is to count."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpufleet.simulation.fleet.fairness import Fairness
from gpufleet.simulation.fleet.progress import Progress
from gpufleet.simulation.fleet.shares import Books
from gpufleet.simulation.fleet.spec import Spec
from gpufleet.simulation.fleet.workload import Work


class Policy(Protocol):
    """Decides who runs where. It acts through the world's start, stop, move and wake."""

    def arrived(self, work: Work, now: float) -> None: ...

    def ended(self, work: Work, now: float) -> None: ...

    def decide(self, now: float) -> None: ...


@dataclass(slots=True)
class Counts:
    """What happened, until the horizon."""

    evictions: int = 0
    moves: int = 0
    replica_moves: int = 0
    starts: int = 0
    """Every start of a job that waited, restarts after a stop included; moves are not."""
    lost: float = 0.0
    """GPU-seconds of work lost to stops."""
    kills: int = 0
    """Replicas that used more memory than their slice has."""


@dataclass(slots=True)
class World:
    """The simulated fleet. Time is in seconds from the first instant."""

    spec: Spec
    jobs: dict[str, Progress] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    books: Books = field(default_factory=Books)
    fairness: Fairness = field(default_factory=lambda: Fairness((), 0.0))
    now: float = 0.0
    horizon: float = 0.0
    _events: list[tuple[float, int, str, int]] = field(default_factory=list)
    _number: int = 0

    # ------------------------------------------------------------ what a policy does

    def start(self, name: str, nodes: Sequence[int], delay: float = 0.0, cards: Sequence[str] = ()) -> None:
        """The job has places on these nodes (by number, one entry per pod is enough), a replica on these cards.

        `delay` until it can start, besides what every start but the first takes.
        """
        job = self.jobs[name]
        job.start(self.now, nodes, self.spec, delay + self._restart(job))
        self.books.hold(name, cards, self.now)
        self.counts.starts += 1
        self._push(job.finish_at(), name, job.runs)

    def stop(self, name: str) -> None:
        """The job loses its places and the work since its last save."""
        job = self.jobs[name]
        self._count(job, self.now)
        lost = job.stop(self.now)
        job.stops += 1
        self.counts.evictions += 1
        self.counts.lost += lost * job.work.demand

    def move(self, name: str, nodes: Sequence[int], cards: Sequence[str] = ()) -> None:
        """The job saves, if it can, and goes on elsewhere."""
        job = self.jobs[name]
        self._count(job, self.now)
        self.counts.lost += job.stop(self.now, planned=True) * job.work.demand
        self.counts.moves += 1
        self.counts.replica_moves += job.work.is_replica
        self.counts.starts -= 1
        self.start(name, nodes, 0.0 if job.work.is_replica else self.spec.speed.move, cards)

    def _restart(self, job: Progress) -> float:
        if not job.runs:
            return 0.0
        return self.spec.serving.restart if job.work.is_replica else self.spec.speed.restart

    def wake(self, at: float) -> None:
        """Ask the policy again then."""
        self._push(at, "", 0)

    # ------------------------------------------------------------ the loop

    def run(self, works: Sequence[Work], policy: Policy, progress: Callable[[float], None] = lambda _: None) -> None:
        """From the first arrival to the last; what runs then is counted until then."""
        self.jobs = {w.name: Progress(w) for w in works}
        self.horizon, self.books.since = works[-1].arrives, self.spec.warmup
        deserved = tuple(gpus for _, gpus in self.spec.teams)
        self.fairness = Fairness(deserved, self.spec.fleet.total, self.spec.warmup)
        for work in works:
            self._push(work.arrives, work.name, -1)
        while self._events and self._events[0][0] <= self.horizon:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                self._happen(heapq.heappop(self._events), policy)
            policy.decide(self.now)
            progress(self.now / self.horizon if self.horizon else 1.0)
        self.now = self.horizon
        for job in self.jobs.values():
            self._count(job, self.horizon)
            job.advance(self.horizon)
        self.books.close(self.horizon)
        self.fairness.advance(self.horizon)

    def _happen(self, event: tuple[float, int, str, int], policy: Policy) -> None:
        _, _, name, run = event
        if not name:
            return
        job = self.jobs[name]
        if run < 0:
            self.fairness.wants(job.work.team, job.work.gpus, self.now)
            policy.arrived(job.work, self.now)
        elif run == job.runs and job.started is not None:  # else it was stopped or moved meanwhile
            self._count(job, self.now)
            self.fairness.wants(job.work.team, -job.work.gpus, self.now)
            job.advance(self.now)
            job.ended, job.started, job.since = self.now, None, None
            policy.ended(job.work, self.now)

    def _count(self, job: Progress, until: float) -> None:
        """The present run ends, or all does: its time, once."""
        if job.since is not None:
            self.books.ran_until(job.work, job.started or 0.0, job.began, until)
            held = max(0.0, until - max(job.started or 0.0, self.spec.warmup))
            self.fairness.ran(job.work.team, held, job.work.gpus)
            job.began = max(job.began, until)

    def _push(self, at: float, name: str, run: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, name, run))
