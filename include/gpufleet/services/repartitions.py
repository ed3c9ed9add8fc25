"""Changes of MIG layouts under way: what was decided, how far it is, and whether the node shows it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from gpufleet.errors import NotFound
from gpufleet.services.fleet import Fleet
from gpufleet.store import operations, world
from gpufleet.store import schema as t


def open_repartitions(fleet: Fleet) -> tuple[str, ...]:
    """Names of the changes that were decided and are not done, oldest first. Only a pass decides one."""
    o = t.operation.c
    query = select(o.name).where(o.kind == "repartition", o.state.in_(operations.OPEN)).order_by(o.id)
    with fleet.database.read() as connection:
        return tuple(connection.execute(query).scalars())


def repartition_view(fleet: Fleet, name: str) -> dict[str, Any]:
    """Its state (todo, leased, done, failed, superseded), the MIG manager's words, whether the node shows the new layout.

    Where a later change of the same GPU was decided, that one is what the node has to show.
    """
    with fleet.database.read() as connection:
        row = connection.execute(select(t.operation).where(t.operation.c.name == name)).first()
        if row is None or row.kind != "repartition":
            raise NotFound(f"There is no change of a MIG layout called '{name}'.")
        return {
            "name": name,
            "node": row.args["node"],
            "gpu": row.args["gpu"],
            "create": [f"{profile}@{start}" for profile, start in row.args["create"]],
            "destroy": [f"{profile}@{start}" for profile, start in row.args["destroy"]],
            "state": row.state,
            "tries": row.tries,
            "says": row.error,
            "shown": _is_followed(connection, row) or _is_shown(connection, row),
        }


def _is_followed(connection: Connection, row: Row[Any]) -> bool:
    o = t.operation.c
    later = select(o.id).where(o.kind == "repartition", o.target == row.target, o.id > row.id)
    return connection.execute(later).first() is not None


def _is_shown(connection: Connection, row: Row[Any]) -> bool:
    """What was to be made is there, as the last look at the cluster has it."""
    nodes = {node.name: node for node in world.nodes_of(connection, row.args["cluster"]).values()}
    node = nodes.get(row.args["node"])
    device = next((d for d in node.devices if d.index == row.args["gpu"]), None) if node else None
    there = {(i.profile, i.start) for i in device.instances} if device else set()
    return {(profile, start) for profile, start in row.args["create"]} <= there
