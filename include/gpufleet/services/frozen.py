"""The frozen input of a pass on the database, with what the scheduling policy asks for beyond the present."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import NodeState
from gpufleet.model.snapshot import Snapshot
from gpufleet.quota.lately import WEEK, Held, used_lately
from gpufleet.services.fleet import Fleet
from gpufleet.services.hand_over import ours
from gpufleet.services.keep_deadlines import off_spot
from gpufleet.store import operations, places
from gpufleet.store.snapshots import read_snapshot
from gpufleet.units import GpuAmount


def frozen(connection: Connection, fleet: Fleet, now: datetime) -> Snapshot:
    """All a pass may know at `now`; what queues used lately only where `usage_weight` makes it count."""
    read = ours(read_snapshot(connection, now, fleet.recovery), fleet.handed)
    snapshot = off_spot(connection, _without_leaving(connection, read))
    if not fleet.scheduling.usage_weight:
        return snapshot
    gpus = Fraction(sum(len(node.devices) for node in snapshot.nodes))
    models = {node.name: node.model.name for node in snapshot.nodes}
    held = [_held(row, models) for row in places.held_since(connection, now - WEEK)]
    used = used_lately(held, gpus, now)
    queues = tuple(replace(queue, used_lately=used.get(queue.name, 0.0)) for queue in snapshot.queues)
    return replace(snapshot, queues=queues)


def _without_leaving(connection: Connection, snapshot: Snapshot) -> Snapshot:
    """A machine whose release is decided takes nothing new: what runs there ends, then it goes."""
    bought = {f"release/{node.instance}": node.name for node in snapshot.nodes if node.instance}
    leaving = {bought[name] for name in operations.states_of(connection, bought)}
    if not leaving:
        return snapshot
    nodes = (replace(n, state=NodeState.CORDONED) if n.name in leaving else n for n in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def _held(row: Row[Any], models: dict[str, str]) -> Held:
    return Held(row.queue, amount_held(row, models.get(row.node)).gpus, row.allocated_at, row.released_at)


def amount_held(row: Row[Any], model: str | None) -> GpuAmount:
    """The part of a GPU that was held; of a node that is gone a slice counts as the whole of it."""
    if row.kind == "share":
        return GpuAmount.milli(row.milli)
    profile = gpu_model(model).profile(row.profile) if model and row.profile else None
    return gpu_model(model).slice_amount(profile) if model and profile else GpuAmount.of(1)
