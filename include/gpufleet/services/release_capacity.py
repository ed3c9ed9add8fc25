"""Gives back bought machines that stand idle, and those that never joined their cluster.

A node whose release is decided takes no new work (`frozen`), so nothing starts on it while the cloud ends it. While a
purchase is under way nothing goes back: what it brings may complete a gang together with what stands idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from gpufleet.model.hardware import NodeState
from gpufleet.procurement.release import GOES_BACK, Machine, Release, may_go, releases
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger, operations, places, world
from gpufleet.store.codec import load_node


def release_capacity(fleet: Fleet, about_to_start: Callable[[], Collection[str]]) -> None:
    """Decide what goes back; `about_to_start` names nodes that gangs would start on (asked only when it matters, and
    while no lock is held)."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        machines = _machines(connection, now)
    if not any(may_go(m, fleet.buying.idle_for, now) for m in machines):
        return
    found = releases(
        machines,
        about_to_start(),
        idle_for=fleet.buying.idle_for,
        billed_by=dict(fleet.guards.billed_by),
        now=now,
    )
    with fleet.database.write() as connection:
        if not found or operations.any_open(connection, "buy"):
            return
        busy = _busy(connection)
        for release in found:
            if release.machine.node not in busy:
                _decide(connection, release, now)


def _busy(connection: Connection) -> set[str]:
    return {p.node for pods in places.live_places(connection).values() for p in pods}


def _machines(connection: Connection, now: datetime) -> list[Machine]:
    """Machines that may go back some time; since when each stands idle is noted on its node."""
    busy = _busy(connection)
    offered = {o.name: o.capacity for o, _, _ in world.offerings(connection)}
    rows = [(row, load_node(row.text)) for row in world.node_rows(connection)]
    nodes = {node.instance: (row, node) for row, node in rows if node.instance}
    found = []
    for i in world.instances(connection):
        capacity = nodes[i.name][1].capacity if i.name in nodes else offered.get(i.offering)
        if i.state not in ("pending", "ready") or capacity not in GOES_BACK:
            continue
        machine = Machine(i.name, i.cloud, capacity, i.recorded_at)
        if i.name in nodes:
            row, _ = nodes[i.name]
            idle_since = _idle_since(connection, row.name, row.idle_since, now, busy=row.name in busy)
            ready = row.state == NodeState.READY and i.state == "ready"
            machine = replace(machine, node=row.name, ready=ready, idle_since=idle_since)
        found.append(machine)
    return found


def _idle_since(
    connection: Connection, node: str, noted: datetime | None, now: datetime, *, busy: bool
) -> datetime | None:
    since = None if busy else noted or now
    if since != noted:
        world.set_idle(connection, node, since)
    return since


def _decide(connection: Connection, release: Release, now: datetime) -> None:
    machine = release.machine
    name = f"release/{machine.instance}"
    if name in operations.states_of(connection, [name]):
        return
    operations.decide(
        connection,
        now,
        kind="release",
        target=f"instance/{machine.instance}",
        name=name,
        args={"cloud": machine.cloud, "instance": machine.instance},
    )
    ledger.audit(connection, now, "procurement", "release", machine.instance, release.why)
