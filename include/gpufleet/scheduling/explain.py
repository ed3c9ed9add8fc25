"""Why one job waits: its place in the line, the reason level by level, and the cheapest thing that would unblock it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpufleet.errors import NotFound
from gpufleet.model.plan import Plan, Reason
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.placement.demand import capacity
from gpufleet.scheduling.checks import Check, checks
from gpufleet.scheduling.planner import consider, finish
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.trial import Option
from gpufleet.scheduling.unblock import unblock


@dataclass(frozen=True, slots=True)
class LevelAnswer:
    """What one level of the topology offers the job: domains, and the pods that fit in the best of them now."""

    level: str
    domains: int
    best: int
    needed: int

    @property
    def fits(self) -> bool:
        return self.best >= self.needed


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer. `state` is running, starting or pending; positions are 0 unless it is pending."""

    job: str
    state: str
    detail: str
    position: int = 0
    queue_position: int = 0
    reason: Reason | None = None
    unblock: str = ""
    levels: tuple[LevelAnswer, ...] = ()
    checks: tuple[Check, ...] = ()
    options: tuple[Option, ...] = ()
    """All that was tried out and works, the cheapest first; `unblock` is the first of them."""
    expected_start: datetime | None = None
    """By the declared runtimes of running jobs; None where these do not tell."""
    cut: str = ""
    """What was left untried so that the answer comes quickly; empty when nothing was."""


def explain(snapshot: Snapshot, policy: SchedulingPolicy, now: datetime, job_id: str) -> Explanation:
    """The answer about one job of the snapshot; raises NotFound for any other."""
    for run in snapshot.running:
        if run.job.id == job_id:
            nodes = ", ".join(sorted({p.node for p in run.places}))
            return Explanation(job_id, "running", f"runs on {nodes} since {run.started_at:%Y-%m-%d %H:%M} UTC")
    pending = next((p for p in snapshot.pending if p.job.id == job_id), None)
    if pending is None:
        raise NotFound(f"There is no job '{job_id}'; known are running and pending jobs of this fleet.")
    session, considered = consider(snapshot, policy, now)
    return _about(session, finish(session, considered), pending)


def _about(session: Session, plan: Plan, pending: Pending) -> Explanation:
    job_id = pending.job.id
    for placement in plan.placements:
        if placement.job == job_id:
            nodes = ", ".join(sorted({p.node for p in placement.pods}))
            after = f" after {', '.join(placement.after)}" if placement.after else " now"
            return Explanation(job_id, "starting", f"starts on {nodes}{after}")
    entry = next(w for w in plan.waiting if w.job == job_id)
    ways = unblock(session, plan, pending)
    return Explanation(
        job_id,
        "pending",
        entry.detail,
        entry.position,
        entry.queue_position,
        entry.reason,
        ways.options[0].detail if ways.options else entry.unblock,
        _levels(session, pending),
        checks(session, plan, pending, entry),
        ways.options,
        ways.expected_start,
        ways.cut,
    )


def _levels(session: Session, pending: Pending) -> tuple[LevelAnswer, ...]:
    """Level by level, narrow to broad: how many of the job's smallest form fit in one domain."""
    names = [n for group in session.eligible(pending).values() for n in group]
    found = []
    for depth in range(len(session.topology.names) - 1, -1, -1):
        domains = session.topology.split(names, depth)
        best = max((_pods(session, pending, d) for d in domains.values()), default=0)
        found.append(LevelAnswer(session.topology.names[depth], len(domains), best, pending.job.least_pods))
    return tuple(found)


def _pods(session: Session, pending: Pending, names: list[str]) -> int:
    """Pods that fit in these nodes, each set counted as if it were alone."""
    return sum(
        min(s.count, sum(capacity(session.ledger, session.ledger.books[n], s) for n in names))
        for s in pending.job.pod_sets
    )
