"""Why one job waits: its place in the line, the reason level by level, and the cheapest thing that would unblock it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufleet.errors import NotFound
from gpufleet.model.plan import Plan, Reason
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.placement.demand import capacity
from gpufleet.scheduling.lost import lost_work
from gpufleet.scheduling.planner import consider, finish
from gpufleet.scheduling.session import Session
from gpufleet.units import GpuAmount


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
    return Explanation(
        job_id,
        "pending",
        entry.detail,
        entry.position,
        entry.queue_position,
        entry.reason,
        _cheapest_wait(session, pending) or entry.unblock,
        _levels(session, pending),
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


def _cheapest_wait(session: Session, pending: Pending) -> str:
    """The running job with the least unsaved work whose end alone would place this one."""
    best: tuple[tuple[int, str], str] | None = None
    for name, run in session.running.items():
        if not session.held[name]:
            continue
        mark = session.mark()
        session.take_away(name, [p.rank for p in session.held[name]])
        fits = session.start(pending) is not None
        session.rollback(mark)
        lost = lost_work(session, run, session.held[name])
        if fits and (best is None or (lost, name) < best[0]):
            minutes = session.since_save(run) // timedelta(minutes=1)
            gpus = GpuAmount(session.cost(session.held[name]))
            best = (lost, name), f"the end of {name} ({gpus} GPUs, {minutes} min since its checkpoint) would place it"
    return best[1] if best else ""
