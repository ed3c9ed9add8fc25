"""Reclaim: take back from other queues what was lent to them."""

from __future__ import annotations

from gpufleet.model.snapshot import Pending, Running
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.victims import stop_and_start


def reclaim(session: Session, pending: Pending) -> bool:
    """Start the job in place of borrowed work, as far as its own queue's due goes."""
    job = pending.job
    if not any(
        session.rights.is_due(job.queue, m, session.grains(job, m, job.least_pods)) for m in session.possible(pending)
    ):
        return False
    key = session.request("reclaim", pending)
    if key in session.notes.hopeless:
        return False
    if stop_and_start(session, pending, session.lenders(), lambda run: may_take(session, pending, run), "reclaim"):
        return True
    session.notes.hopeless.add(key)
    return False


def may_take(session: Session, pending: Pending, run: Running) -> bool:
    """Whether the running job stands on borrowed GPUs of a model that the waiting job's queue is due."""
    job, wanted = pending.job, session.eligible(pending)
    if run.job.queue == job.queue:
        return False
    model = session.model_of(run.job.id)
    return model in wanted and session.rights.may_reclaim(
        job.queue, run.job.queue, model, session.grains(job, model, job.least_pods)
    )
