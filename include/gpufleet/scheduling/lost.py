"""Lost work: the time since the last save, for every GPU that stops. Whole numbers inside, GPU-hours in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Final

from gpufleet.model.snapshot import PodPlace, Running
from gpufleet.model.workload import Kind
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN

MICROSECOND: Final = timedelta(microseconds=1)
GPU_HOUR: Final = GRAIN * (timedelta(hours=1) // MICROSECOND)
"""Grain-microseconds in a GPU-hour."""


def lost_work(session: Session, run: Running, places: Sequence[PodPlace]) -> int:
    """Grain-microseconds since the last save. A service has no unsaved work."""
    if run.job.kind is Kind.INFERENCE:
        return 0
    return (session.since_save(run) // MICROSECOND) * session.cost(places)


def gpu_hours(lost: int) -> Fraction:
    """The same for a person."""
    return Fraction(lost, GPU_HOUR)
