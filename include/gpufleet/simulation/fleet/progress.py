"""How far a job is: work done, work saved, and how fast it goes where it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpufleet.simulation.fleet.spec import Spec, Speed
from gpufleet.simulation.fleet.workload import Work


@dataclass(slots=True)
class Progress:
    """A job's life in the simulation. `done` and `saved` are seconds of work at full speed."""

    work: Work
    done: float = 0.0
    saved: float = 0.0
    since: float | None = None
    """When the present run began to make progress (after a restart); None while it waits."""
    started: float | None = None
    """When it got its present places."""
    first_start: float | None = None
    ended: float | None = None
    began: float = 0.0
    """When the present run began to make progress."""
    slowdown: float = 1.0
    nodes: tuple[int, ...] = ()
    lost: float = 0.0
    """Seconds of work lost to stops."""
    stops: int = 0
    runs: int = 0

    def start(self, now: float, nodes: Sequence[int], spec: Spec, delay: float = 0.0) -> None:
        """It has its places; after `delay` (a restart) it makes progress."""
        self.nodes, self.started = tuple(nodes), now
        self.since = self.began = now + delay
        self.slowdown = slowdown(self.work, nodes, spec.speed, spec.fleet.gpus, spec.fleet.per_leaf)
        if self.first_start is None:
            self.first_start = now + delay
        self.runs += 1

    def finish_at(self) -> float:
        """When it will have done its work where it stands."""
        assert self.since is not None
        return self.since + (self.work.seconds - self.done) * self.slowdown

    def advance(self, now: float) -> None:
        """Count the work since the last look, and the saves that fell in it."""
        if self.since is None or now <= self.since:
            return
        self.done = min(self.work.seconds, self.done + (now - self.since) / self.slowdown)
        self.since = now
        if self.work.interval is not None:
            self.saved = max(self.saved, math.floor(self.done / self.work.interval) * self.work.interval)

    def save(self, now: float) -> None:
        """Asked to save: a job that saves at all has all its work safe."""
        self.advance(now)
        if self.work.interval is not None:
            self.saved = self.done

    def last_save(self, now: float) -> float | None:
        """When the newest save was made, in simulated time; None where there is none in this run."""
        if self.work.interval is None or self.started is None or self.saved <= 0:
            return None
        return max(self.started, now - (self.done - self.saved) * self.slowdown)

    def stop(self, now: float, *, planned: bool = False) -> float:
        """Its places are gone. A planned stop saves first; a replica has nothing to save. Returns the seconds lost."""
        self.advance(now)
        keeps = self.work.is_replica or (planned and self.work.interval is not None)
        lost = 0.0 if keeps else self.done - self.saved
        self.done -= lost
        self.saved = self.done
        self.lost += lost
        self.since = self.started = None
        self.nodes = ()
        return lost


def slowdown(work: Work, nodes: Sequence[int], speed: Speed, gpus: int, per_leaf: int) -> float:
    """More nodes than needed, or more leaves: the larger factor counts."""
    if work.is_replica or work.gpus <= 1:
        return 1.0
    used, leaves = len(set(nodes)), len({n // per_leaf for n in nodes})
    fewest = math.ceil(work.gpus / gpus)
    if used > fewest:
        return speed.scattered if leaves <= math.ceil(fewest / per_leaf) else max(speed.scattered, speed.leaf)
    return speed.leaf if leaves > math.ceil(fewest / per_leaf) else 1.0
