"""Running jobs by what the rules look at: worked out once, for who runs never changes in a pass."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Running
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Kind


class Sort(NamedTuple):
    """All the rules of reclaim and preempt look at: jobs of one sort are judged once."""

    queue: str
    model: str
    priority: int
    service: bool


class Roster:
    """`model_of` tells the GPU model of a running job."""

    def __init__(
        self,
        running: Mapping[str, Running],
        queues: Mapping[str, Queue],
        model_of: Mapping[str, str],
        now: datetime,
        policy: SchedulingPolicy,
    ) -> None:
        self.sort_of: dict[str, Sort] = {}
        self.first: dict[Sort, Running] = {}
        """Of every sort with a job that may be stopped, one job to judge it by."""
        self.of_queue: dict[str, list[tuple[Sort, Running]]] = {}
        """The same by queue."""
        self.on: dict[str, list[str]] = {}
        """By node, the jobs that had a place there when the pass began."""
        self.lowest: dict[str, int] = {}
        """By queue, the lowest priority that may be stopped."""
        self.protected: set[str] = set()
        """Jobs still inside the time their queue promises to every start."""
        self.settled: set[str] = set()
        """Jobs that could move at all, of those that may be stopped."""
        for name, run in running.items():
            for node in dict.fromkeys(p.node for p in run.places):
                self.on.setdefault(node, []).append(name)
            queue = queues.get(run.job.queue)
            if queue is not None and now - run.started_at < queue.min_runtime:
                self.protected.add(name)
            elif run.job.preemptible:
                self._enter(run, model_of[name])
                if _could_move(run, now, policy):
                    self.settled.add(name)

    def _enter(self, run: Running, model: str) -> None:
        job = run.job
        sort = self.sort_of[job.id] = Sort(job.queue, model, job.priority, job.kind is Kind.INFERENCE)
        if sort not in self.first:
            self.first[sort] = run
            self.of_queue.setdefault(job.queue, []).append((sort, run))
        self.lowest[job.queue] = min(self.lowest.get(job.queue, job.priority), job.priority)


def _could_move(run: Running, now: datetime, policy: SchedulingPolicy) -> bool:
    """It has saved lately; a service, where the policy moves them, has stood for a while."""
    if run.job.kind is Kind.INFERENCE:
        return timedelta(0) < policy.move_services <= now - run.started_at
    return now - (run.last_checkpoint_at or run.started_at) <= policy.fresh_checkpoint
