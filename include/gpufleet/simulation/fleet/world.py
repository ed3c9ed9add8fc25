"""The event loop: arrivals, ends and lost nodes in order of time, a decision after each, and what there is to count."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from gpufleet.simulation.fleet.fairness import Fairness
from gpufleet.simulation.fleet.faults import Fault
from gpufleet.simulation.fleet.losses import Losses, losses_now
from gpufleet.simulation.fleet.progress import Progress
from gpufleet.simulation.fleet.shares import Books
from gpufleet.simulation.fleet.spec import Spec
from gpufleet.simulation.fleet.workload import Work


class Policy(Protocol):
    """Decides who runs where. It acts through the world's start, stop, move and wake."""

    def arrived(self, work: Work, now: float) -> None: ...

    def ended(self, work: Work, now: float) -> None: ...

    def noticed(self, node: int, now: float) -> None:
        """The node will be gone soon; who runs there has been asked to save."""

    def lost(self, node: int, works: Sequence[Work], now: float) -> None:
        """The node is gone, and these jobs have stopped with it."""

    def back(self, node: int, now: float) -> None: ...

    def decide(self, now: float) -> None: ...


@dataclass(slots=True)
class Counts:
    """What happened, until the horizon."""

    evictions: int = 0
    moves: int = 0
    replica_moves: int = 0
    starts: int = 0
    """Every start of a job that waited, restarts after a stop included; moves are not."""
    interruptions: int = 0
    """Jobs stopped by the loss of a node."""
    lost: float = 0.0
    """GPU-seconds of work lost to stops, whoever's fault."""
    kills: int = 0
    """Replicas that used more memory than their slice has."""
    held: int = 0
    """GPUs held now by gangs that are not whole (the policy says so)."""
    losses: Losses = field(default_factory=Losses)


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
    running: dict[str, Progress] = field(default_factory=dict)
    waiting: dict[str, Progress] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    """Nodes that are gone now."""
    _events: list[tuple[float, int, Callable[[Policy], None]]] = field(default_factory=list)
    _number: int = 0

    # ------------------------------------------------------------ what a policy does

    def start(self, name: str, nodes: Sequence[int], delay: float = 0.0, cards: Sequence[str] = ()) -> None:
        """The job has places on these nodes (by number, one entry per pod is enough), a replica on these cards.

        `delay` until it can start, besides what every start but the first takes.
        """
        job = self.jobs[name]
        job.start(self.now, nodes, self.spec, delay + self._restart(job))
        self.running[name] = job
        self.waiting.pop(name, None)
        self.books.hold(name, cards, self.now)
        self.counts.starts += 1
        self._push(job.finish_at(), partial(self._end, name, job.runs))

    def stop(self, name: str) -> None:
        """The job loses its places and the work since its last save."""
        self._interrupt(name)
        self.counts.evictions += 1

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
        self._push(at, lambda _: None)

    # ------------------------------------------------------------ the loop

    def run(
        self,
        works: Sequence[Work],
        policy: Policy,
        progress: Callable[[float], None] = lambda _: None,
        faults: Sequence[Fault] = (),
    ) -> None:
        """From the first arrival to the last; what runs then is counted until then."""
        self.jobs = {w.name: Progress(w) for w in works}
        self.horizon, self.books.since = works[-1].arrives, self.spec.warmup
        deserved = tuple(gpus for _, gpus in self.spec.teams)
        self.fairness = Fairness(deserved, self.spec.fleet.total, self.spec.warmup)
        for work in works:
            self._push(work.arrives, partial(self._arrive, work.name))
        for fault in faults:
            self._expect(fault)
        self._account()
        while self._events and self._events[0][0] <= self.horizon:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[2](policy)
            policy.decide(self.now)
            self._account()
            progress(self.now / self.horizon if self.horizon else 1.0)
        self.now = self.horizon
        for job in self.jobs.values():
            self._count(job, self.horizon)
            job.advance(self.horizon)
        self.books.close(self.horizon)
        self.fairness.advance(self.horizon)

    def _account(self) -> None:
        """What GPUs do from now until the next event."""
        until = min(self._events[0][0], self.horizon) if self._events else self.horizon
        if self.spec.training_share >= 1 and until > self.now:
            gpus = self.spec.fleet.total - len(self.down) * self.spec.fleet.gpus
            moment = losses_now(gpus, self.counts.held, self.running.values(), self.waiting.values())
            self.counts.losses.add(moment, until - self.now)

    def _arrive(self, name: str, policy: Policy) -> None:
        job = self.waiting[name] = self.jobs[name]
        self.fairness.wants(job.work.team, job.work.gpus, self.now)
        policy.arrived(job.work, self.now)

    def _end(self, name: str, run: int, policy: Policy) -> None:
        job = self.jobs[name]
        if run == job.runs and job.started is not None:  # else it was stopped or moved meanwhile
            self._count(job, self.now)
            self.fairness.wants(job.work.team, -job.work.gpus, self.now)
            job.advance(self.now)
            job.ended, job.started, job.since = self.now, None, None
            del self.running[name]
            policy.ended(job.work, self.now)

    def _interrupt(self, name: str) -> None:
        job = self.running.pop(name)
        self._count(job, self.now)
        lost = job.stop(self.now)
        job.stops += 1
        self.counts.lost += lost * job.work.demand
        self.waiting[name] = job

    # ------------------------------------------------------------ nodes that go

    def _expect(self, fault: Fault) -> None:
        if fault.noticed is not None:
            self._push(fault.noticed, partial(self._notice, fault.node))
        self._push(fault.lost, partial(self._lose, fault.node))
        self._push(fault.back, partial(self._return, fault.node))

    def _on(self, node: int) -> list[Progress]:
        return [job for job in self.running.values() if node in job.nodes]

    def _notice(self, node: int, policy: Policy) -> None:
        for job in self._on(node):
            job.save(self.now)
        policy.noticed(node, self.now)

    def _lose(self, node: int, policy: Policy) -> None:
        gone = [job.work for job in self._on(node)]
        for work in gone:
            self._interrupt(work.name)
        self.counts.interruptions += len(gone)
        self.down.add(node)
        policy.lost(node, gone, self.now)

    def _return(self, node: int, policy: Policy) -> None:
        self.down.discard(node)
        policy.back(node, self.now)

    # ------------------------------------------------------------ counting

    def _count(self, job: Progress, until: float) -> None:
        """The present run ends, or all does: its time, once."""
        if job.since is not None:
            self.books.ran_until(job.work, job.started or 0.0, job.began, until)
            held = max(0.0, until - max(job.started or 0.0, self.spec.warmup))
            self.fairness.ran(job.work.team, held, job.work.gpus)
            job.began = max(job.began, until)

    def _push(self, at: float, happen: Callable[[Policy], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, happen))
