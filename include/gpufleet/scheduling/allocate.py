"""Allocate: a place nobody has to leave. Disturbs nobody."""

from __future__ import annotations

from gpufleet.model.snapshot import Pending
from gpufleet.scheduling.session import Session


def allocate(session: Session, pending: Pending) -> bool:
    """Start the job on what is free and held for nobody."""
    key = session.request("allocate", pending)
    if key in session.notes.hopeless:
        return False
    places = session.start(pending)
    if places is None:
        session.notes.hopeless.add(key)
        return False
    session.commit(pending, places)
    return True
