"""Which idle machines go back, and when: never one that a gang needs, never before what is paid is nearly used up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpufleet.model.capacity import CapacityType

GOES_BACK: Final = (CapacityType.SPOT, CapacityType.ON_DEMAND)
"""What is paid by use. Reserved and owned capacity costs the same whether it is used or not: it stays."""
LEAD: Final = timedelta(minutes=3)
"""How long before the next billing step a machine is given back: a tick of a minute, and time for the cloud to end it."""
JOINS_WITHIN: Final = timedelta(minutes=10)
"""A machine that has not joined its cluster by then never will: its money comes back."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine that was bought, at an instant by our own clock. `node` is None until it has joined; `idle_since` is
    None while something is on it."""

    instance: str
    cloud: str
    capacity: CapacityType
    bought_at: datetime
    node: str | None = None
    ready: bool = True
    idle_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Give this machine back, and why."""

    machine: Machine
    why: str


def releases(
    machines: Iterable[Machine],
    needed: Collection[str],
    *,
    idle_for: timedelta,
    billed_by: Mapping[str, timedelta],
    now: datetime,
) -> tuple[Release, ...]:
    """Machines to give back now, by name. `needed` names nodes that a gang is about to start on."""
    found = []
    for machine in sorted(machines, key=lambda m: m.instance):
        why = _why(machine, needed, idle_for, now)
        if why and _is_due(machine, billed_by.get(machine.cloud, timedelta(0)), now):
            found.append(Release(machine, why))
    return tuple(found)


def may_go(machine: Machine, idle_for: timedelta, now: datetime) -> bool:
    """Whether it has stood idle for long enough, whoever may need it."""
    return _why(machine, (), idle_for, now) != ""


def _why(machine: Machine, needed: Collection[str], idle_for: timedelta, now: datetime) -> str:
    """A reason, or nothing."""
    if machine.capacity not in GOES_BACK:
        return ""
    if machine.node is None:
        return "it never joined its cluster" if now - machine.bought_at >= JOINS_WITHIN else ""
    if not machine.ready or machine.idle_since is None or machine.node in needed:
        return ""
    return f"{machine.node} stood idle" if now - machine.idle_since >= idle_for else ""


def _is_due(machine: Machine, step: timedelta, now: datetime) -> bool:
    """At the end of what is paid anyway: a machine billed by the hour keeps the rest of its hour."""
    if step <= LEAD:
        return True
    return step - (now - machine.bought_at) % step <= LEAD
