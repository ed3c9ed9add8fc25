"""Per queue and model: used, deserved, limit, fair share. What the portal and the metrics show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.model.hardware import NodeState
from gpufleet.model.snapshot import Snapshot
from gpufleet.quota.fairshare import fair_shares
from gpufleet.quota.tree import Tree
from gpufleet.quota.usage import Usage, cost
from gpufleet.units import GRAIN, GpuAmount


@dataclass(frozen=True, slots=True)
class QueueUse:
    """One queue and one GPU model (or `*`); `deserved` and `limit` are None where no key says anything."""

    queue: str
    model: str
    used: GpuAmount
    deserved: GpuAmount | None
    limit: GpuAmount | None
    fair_share: GpuAmount


def capacity(snapshot: Snapshot) -> dict[str, int]:
    """Grains of healthy GPUs by model, nodes that are lost left out."""
    found: dict[str, int] = {}
    for node in snapshot.nodes:
        healthy = sum(1 for d in node.devices if d.healthy) if node.state is not NodeState.LOST else 0
        found[node.model.name] = found.get(node.model.name, 0) + healthy * GRAIN
    return found


def used(snapshot: Snapshot, tree: Tree) -> Usage:
    """What running jobs hold; who is leaving no longer counts."""
    found = Usage(tree)
    models = {n.name: n.model for n in snapshot.nodes}
    for run in snapshot.running:
        for place in run.places if not run.leaving else ():
            if model := models.get(place.node):
                grains = cost(place, model).grains
                found.add(run.job.queue, model.name, grains, preemptible=run.job.preemptible)
    return found


def usage(
    snapshot: Snapshot, wanted: dict[str, dict[str, int]] | None = None, usage_weight: float = 0.0
) -> tuple[QueueUse, ...]:
    """Every queue with every model of the fleet and `*`, sorted. `wanted` = grains waited for, by queue and model."""
    tree = Tree(snapshot.queues)
    now, have = used(snapshot, tree), capacity(snapshot)
    leaves = {name: dict(now.of(name)) for name in tree.queues if not tree.children[name]}
    for queue, amounts in (wanted or {}).items():
        for model, grains in amounts.items():
            leaves.setdefault(queue, {})[model] = leaves.get(queue, {}).get(model, 0) + grains
    shares = fair_shares(tree, leaves, have, usage_weight)
    return tuple(row for name in sorted(tree.queues) for row in _rows(tree, now, shares, name, sorted(have)))


def _rows(
    tree: Tree, now: Usage, shares: dict[tuple[str, str], int], queue: str, models: Iterable[str]
) -> list[QueueUse]:
    deserved, limit, held = tree.deserved(queue), tree.limits[queue], now.of(queue)
    rows = [
        QueueUse(
            queue,
            model,
            GpuAmount(held.get(model, 0)),
            _known(deserved.get(model)),
            _known(limit.get(model)),
            GpuAmount(shares.get((queue, model), 0)),
        )
        for model in models
    ]
    return [
        QueueUse(
            queue,
            "*",
            GpuAmount(sum(held.values())),
            _known(deserved.get("*")),
            _known(limit.get("*")),
            GpuAmount(sum(r.fair_share.grains for r in rows)),
        ),
        *rows,
    ]


def _known(grains: int | None) -> GpuAmount | None:
    return None if grains is None else GpuAmount(grains)
