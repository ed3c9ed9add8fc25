"""Keeps the clusters' own quotas in step with teams.yaml and the nodes: decided anew only when either has changed."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Queue, Team
from gpufleet.services.fleet import Fleet
from gpufleet.store import operations, tenancy, world


def keep_fences(fleet: Fleet) -> None:
    """One effect for each cluster whose fences may differ from what they should be."""
    fenced = [name for name, cluster in fleet.clusters.items() if cluster.has_fences]
    if not fenced:
        return
    with fleet.database.read() as connection:
        teams, queues = tenancy.teams(connection), tenancy.queues(connection)
        nodes: dict[str, list[Node]] = defaultdict(list)
        for node in world.nodes(connection):
            nodes[node.cluster].append(node)
        wanted = {name: _digest(teams, queues, nodes[name]) for name in fenced if nodes[name]}
        due = {
            name: digest
            for name, digest in sorted(wanted.items())
            if (operations.last_on(connection, f"fence/{name}") or {}).get("digest") != digest
        }
    if due:
        _decide(fleet, due)


def _decide(fleet: Fleet, due: dict[str, str]) -> None:
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        for name, digest in due.items():
            target = f"fence/{name}"
            number = operations.count_on(connection, target) + 1
            args = {"cluster": name, "digest": digest}
            operations.decide(connection, now, kind="fence", target=target, name=f"{target}/{number}", args=args)


def _digest(teams: Iterable[Team], queues: Iterable[Queue], nodes: Iterable[Node]) -> str:
    """What fences follow from: who the teams are, the tree, and which kinds of nodes there are."""
    kinds = sorted({(node.model.name, len(node.devices), node.sharing) for node in nodes})
    told: Any = [[(team.name, team.queue, team.namespace) for team in teams], [asdict(q) for q in queues], kinds]
    return hashlib.sha256(json.dumps(told, default=str, sort_keys=True).encode()).hexdigest()[:16]
