"""A job that another scheduler places: what it is given, and what that scheduler says about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpufleet.model.workload import Container, Job


@dataclass(frozen=True, slots=True)
class Handed:
    """One attempt of a job without places; the cluster knows which scheduler the job's queue belongs to."""

    job: Job
    attempt: int
    namespace: str
    container: Container


class Stage(StrEnum):
    """`evicted` = its scheduler took it off; that ends the attempt, not the job."""

    UNSEEN = "unseen"
    """Its scheduler has not looked at it yet."""
    WAITING = "waiting"
    ADMITTED = "admitted"
    EVICTED = "evicted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Admission:
    """`reason` is the scheduler's own word, `detail` its sentence, `position` counts from 1 where it tells one."""

    stage: Stage
    reason: str = ""
    detail: str = ""
    position: int | None = None
    scheduler: str = ""
