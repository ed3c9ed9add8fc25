"""Use as it was observed: who got which GPU when, when it was given back, and when nodes came and went.

One class for each kind of event, so an event cannot lack what its kind needs. Instants are aware UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction


class QuotaMark(StrEnum):
    """What the scheduler said about an allocation when it made it."""

    GUARANTEED = "guaranteed"
    OVER_QUOTA = "over-quota"


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """Something that was observed on a node. `id` names the observation: the same id again is the same event."""

    id: str
    at: datetime
    node: str


@dataclass(frozen=True, slots=True)
class Allocated(UsageEvent):
    """An attempt of a job holds a GPU, a MIG slice of it (`profile` and `start`) or a share of it (`fraction`)."""

    job: str
    attempt: int
    team: str
    project: str
    gpu: int
    profile: str | None = None
    start: int | None = None
    fraction: Fraction | None = None
    quota: QuotaMark | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Released(UsageEvent):
    """An attempt gave back all it held on a GPU, or with `start` only that slice."""

    job: str
    attempt: int
    gpu: int
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat(UsageEvent):
    """A sign of life: of one holding (job, attempt, gpu), or of the whole node where `holding` is None."""

    holding: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class NodeUp(UsageEvent):
    """A node is there and costs money from now on; again for a node that is up: its description changes."""

    model: str
    gpus: int
    capacity: str
    provider: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class NodeDown(UsageEvent):
    """A node is gone, and with it all that ran on it."""
