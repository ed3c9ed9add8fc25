"""Looks at every cloud and writes down what it sells, what it runs for us, and what it takes back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import Connection

from gpufleet.clouds.base import Cloud
from gpufleet.clusters.base import Observation
from gpufleet.errors import GpufleetError
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.model.hardware import Node, NodeState
from gpufleet.services.fleet import Fleet
from gpufleet.services.reconcile_clouds import reconcile_cloud
from gpufleet.store import world

log = structlog.get_logger()

LEAVES_WITHIN: Final = timedelta(minutes=5)
"""A notice counts for so long after its deadline; then the node is gone, or the cloud thought better of it."""


def observe_clouds(fleet: Fleet) -> None:
    """A cloud that cannot be asked keeps its last facts; the others are seen. Notices come first: they have the least time,
    and what stands in their way keeps nothing else from being seen."""
    for name, cloud in sorted(fleet.clouds.items()):
        for look in (_listen, _observe):
            try:
                look(fleet, name, cloud)
            except GpufleetError as e:
                log.warning("cloud not seen", cloud=name, error=str(e))


def _listen(fleet: Fleet, name: str, cloud: Cloud) -> None:
    notices = cloud.notices()
    if not notices:
        return
    with fleet.database.write() as connection:
        _hear(connection, notices, fleet.clock.now())
    log.info("notices heard", cloud=name, notices=len(notices))
    cloud.heard(notices)


def _observe(fleet: Fleet, name: str, cloud: Cloud) -> None:
    offerings, instances = cloud.offerings(), cloud.instances()
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        world.put_offerings(connection, name, offerings, now)
        world.put_instances(connection, name, instances, now)
        reconcile_cloud(connection, name, instances, now)


def _hear(connection: Connection, notices: Iterable[InterruptionNotice], now: datetime) -> None:
    nodes = {node.instance: node.name for node in world.nodes(connection)}
    for notice in notices:
        world.hear(connection, replace(notice, node=nodes.get(notice.instance, notice.node)), now)


def told_to_leave(connection: Connection, seen: Observation, now: datetime) -> Observation:
    """What a cluster shows, with the nodes that a cloud has announced to take back, wherever it announced that."""
    leaving = world.taken_back(connection, now - LEAVES_WITHIN)

    def told(node: Node) -> Node:
        leaves = node.instance in leaving and node.state in (NodeState.READY, NodeState.CORDONED)
        return replace(node, state=NodeState.RECLAIMING) if leaves else node

    return replace(seen, nodes=tuple(map(told, seen.nodes))) if leaving else seen
