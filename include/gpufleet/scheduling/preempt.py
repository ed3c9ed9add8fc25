"""Preempt: inside one queue the more important job takes the place of the less important."""

from __future__ import annotations

from gpufleet.model.snapshot import Pending, Running
from gpufleet.scheduling.reclaim import may_take
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.victims import stop_and_start


def preempt(session: Session, pending: Pending) -> bool:
    """Start the job in place of its own queue's lower priorities; where these do not suffice, with reclaimed work."""
    job = pending.job
    if session.roster.lowest.get(job.queue, job.priority) >= job.priority:
        return False
    key = session.request("preempt", pending, job.priority)
    if key in session.notes.hopeless:
        return False

    def lower(run: Running) -> bool:
        return run.job.queue == job.queue and run.job.priority < job.priority

    mine = session.roster.of_queue.get(job.queue, [])
    if stop_and_start(session, pending, mine, lower, "preempt"):
        return True
    both = dict([*mine, *session.lenders()]).items()
    if stop_and_start(session, pending, both, lambda run: lower(run) or may_take(session, pending, run), "reclaim"):
        return True
    session.notes.hopeless.add(key)
    return False
