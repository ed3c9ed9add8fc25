"""Holds what clouds run for us against what we decided, both ways: paid and unknown goes back, gone and written down is closed.

A machine is found by its tag. It carries the token of the operation that bought it, so one whose purchase failed, or was
never decided, is nobody's. Many that were never decided look like a restored backup or a second installation: they are
left for a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import Connection

from gpufleet.model.capacity import Instance
from gpufleet.store import ledger, operations, world

log = structlog.get_logger()

GRACE: Final = timedelta(minutes=2)
"""For what a cloud does not show yet, and between two tries to give the same machine back."""
UNKNOWN_GRACE: Final = timedelta(minutes=10)
"""For a machine of no operation: its row may be in a transaction that has not committed."""
MOST_UNKNOWN: Final = 5


def reconcile_cloud(connection: Connection, cloud: str, seen: Iterable[Instance], now: datetime) -> None:
    """Close rows of machines that are gone, decide to give back machines that belong to no purchase."""
    machines = tuple(seen)
    _close(connection, cloud, {instance.name for instance in machines}, now)
    running = [instance for instance in machines if instance.state != "terminated"]
    if running:
        _give_back(connection, cloud, running, now)


def _close(connection: Connection, cloud: str, names: set[str], now: datetime) -> None:
    for row in world.instances(connection):
        if row.cloud == cloud and row.name not in names and now - row.recorded_at >= GRACE:
            world.end_instance(connection, row.name, now)
            ledger.audit(connection, now, "reconciler", "gone", row.name, f"{cloud} does not know it any more")


def _give_back(connection: Connection, cloud: str, running: list[Instance], now: datetime) -> None:
    bought = operations.states_of(connection, {f"buy/{instance.token}" for instance in running})
    released = operations.states_of(connection, {_release(instance.name, 0) for instance in running})
    known = {row.name: row.recorded_at for row in world.instances(connection)}
    failed, unknown = [], []
    for instance in running:
        state, age = bought.get(f"buy/{instance.token}"), now - known.get(instance.name, now)
        if state in ("failed", "superseded") or released.get(_release(instance.name, 0)) == "done":
            failed += [instance] if age >= GRACE else []
        elif state is None and age >= UNKNOWN_GRACE:
            unknown.append(instance)
    if len(unknown) > MOST_UNKNOWN:
        names = ", ".join(instance.name for instance in unknown[:3])
        log.error("too many machines of no purchase to give back without a person", cloud=cloud, first=names)
        unknown = []
    for instance in failed:
        _decide(connection, cloud, instance, "its purchase failed, or it was given back and still runs", now)
    for instance in unknown:
        _decide(connection, cloud, instance, "no purchase of ours has its token", now)


def _release(name: str, number: int) -> str:
    return f"release/{name}/{number}" if number else f"release/{name}"


def _decide(connection: Connection, cloud: str, instance: Instance, why: str, now: datetime) -> None:
    """Once at a time for a machine; again, after a grace, when it runs on."""
    target = f"instance/{instance.name}"
    number = operations.count_on(connection, target)
    if number and operations.state_of(connection, _release(instance.name, number - 1)) in operations.OPEN:
        return
    operations.decide(
        connection,
        now,
        kind="release",
        target=target,
        name=_release(instance.name, number),
        args={"cloud": cloud, "instance": instance.name},
        not_before=now + GRACE if number else None,
    )
    ledger.audit(connection, now, "reconciler", "release", instance.name, why)
