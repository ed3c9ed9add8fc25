"""The quota tree in the resources of the device plugin: what a ResourceQuota, or another scheduler's queue, can hold.

A resource is counted without regard to the model behind it, and slices apart from whole GPUs. So what is said here is
never tighter than the tree, and often looser.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from gpufleet.clusters.kubernetes.rendering.resources import GPU, PRODUCT, REPLICAS, STRATEGY, mig_resource
from gpufleet.model.hardware import GpuModel, Node
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.units import GpuAmount

Gpus = Mapping[str, Fraction]
"""Amounts of GPU by model, and under `*` for the sum over models."""


def limits_of(queue: str, queues: Iterable[Queue]) -> dict[str, Fraction]:
    """What bounds a queue: the least over itself and its ancestors, key by key."""
    known = {q.name: q for q in queues}
    found: dict[str, Fraction] = {}
    here = known.get(queue)
    while here is not None:
        for key, amount in here.limit:
            found[key] = min(found.get(key, amount.gpus), amount.gpus)
        here = known.get(here.parent or "")
    return found


def gpus_of(amounts: Iterable[tuple[str, GpuAmount]]) -> dict[str, Fraction]:
    return {key: amount.gpus for key, amount in amounts}


def bound(model: str, amounts: Gpus) -> Fraction | None:
    """What the amounts allow of one model; None where they say nothing about it."""
    return min((amounts[key] for key in (model, ANY_MODEL) if key in amounts), default=None)


def units(node: Node) -> int:
    """How many `nvidia.com/gpu` one GPU of the node counts as: replicas where it is shared, slices of a single kind."""
    labels = dict(node.labels)
    if labels.get(STRATEGY) == "single":
        return max((len(device.instances) for device in node.devices), default=0) or node.model.compute_slices or 1
    replicas = labels.get(REPLICAS, "")
    shared = labels.get(PRODUCT, "").endswith("-SHARED") and replicas.isdecimal()
    return int(replicas) if shared else 1


def quota_of(limits: Gpus, nodes: Iterable[Node]) -> dict[str, str]:
    """`requests.` of each GPU resource that these nodes can offer; nothing where a model has no limit."""
    nodes = tuple(nodes)
    models = {node.model.name: node.model for node in nodes}
    bounds = {name: found for name in models if (found := bound(name, limits)) is not None}
    if not bounds or len(bounds) < len(models):
        return {}
    whole = _sum(bounds.values(), limits) * max(map(units, nodes))
    counts = {GPU: math.ceil(whole), **slices(models.values(), bounds)}
    return {f"requests.{name}": str(count) for name, count in sorted(counts.items())}


def _sum(bounds: Iterable[Fraction], limits: Gpus) -> Fraction:
    found = sum(bounds, Fraction(0))
    return min(found, limits.get(ANY_MODEL, found))


def slices(models: Iterable[GpuModel], amounts: Gpus) -> dict[str, int]:
    """By resource, how many slices of each profile there are if a model's whole amount is cut so."""
    found: Counter[str] = Counter()
    for model in models:
        for profile in model.profiles:
            found[mig_resource(profile.name)] += int(amounts[model.name] / model.slice_amount(profile).gpus)
    return dict(found)
