"""Teams, projects, queues: who may use how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from gpufleet.units import GpuAmount

ANY_MODEL = "*"
"""The key that bounds the sum over all GPU models."""


class Role(StrEnum):
    MEMBER = "member"
    LEAD = "lead"
    PLATFORM = "platform"
    FINANCE = "finance"


@dataclass(frozen=True, slots=True)
class Member:
    """A person's login and role in one team."""

    login: str
    role: Role = Role.MEMBER


@dataclass(frozen=True, slots=True)
class Team:
    """A team: its queue, projects, members, and the DAGs of its own whose runs act for it."""

    name: str
    queue: str
    projects: tuple[str, ...]
    members: tuple[Member, ...] = ()
    dags: tuple[str, ...] = ()
    namespace: str = ""
    priority_ceiling: int = 1000
    """The highest priority that the team may give its own jobs."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the tree. `deserved` and `limit` are by GPU model and `*`; no key = nothing guaranteed, no bound."""

    name: str
    parent: str | None = None
    deserved: tuple[tuple[str, GpuAmount], ...] = ()
    limit: tuple[tuple[str, GpuAmount], ...] = ()
    weight: float = 1.0
    min_runtime: timedelta = field(default=timedelta(0))
    used_lately: float = 0.0
    """Share of the fleet that it used lately, decayed; counts only with `usage_weight`."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: a login, and whether Airflow (or the shell) holds it for an administrator of the platform."""

    login: str
    is_admin: bool = False
