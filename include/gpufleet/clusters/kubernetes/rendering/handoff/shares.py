"""The quota tree cut to what one scheduler's nodes offer: how much of each resource each queue is promised there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.clusters.kubernetes.rendering.names import dns_label
from gpufleet.clusters.kubernetes.rendering.quotas import Gpus, bound, gpus_of, units
from gpufleet.clusters.kubernetes.rendering.resources import GPU, PRODUCT, STRATEGY, mig_resource
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.quota.tree import Tree
from gpufleet.units import GRAIN


@dataclass(frozen=True, slots=True)
class Flavor:
    """GPUs that are alike: one model under one product label. `offers` counts resources, `gpus` the cards."""

    model: str
    product: str
    gpus: int
    offers: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return dns_label((self.product or self.model).lower())


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue of the tree: what it is promised and bounded by, in GPUs by model."""

    name: str
    parent: str | None
    is_leaf: bool
    weight: float
    deserved: Mapping[str, Fraction]
    limit: Mapping[str, Fraction | None]
    most: Fraction | None
    """What bounds it over all models."""


def flavors(nodes: Iterable[Node]) -> tuple[Flavor, ...]:
    """Cards that are cut offer their slices, the others themselves."""
    cards: Counter[tuple[str, str]] = Counter()
    offers: dict[tuple[str, str], Counter[str]] = {}
    for node in nodes:
        key = (node.model.name, dict(node.labels).get(PRODUCT, ""))
        cards[key] += len(node.devices)
        offers.setdefault(key, Counter()).update(_offers(node))
    return tuple(Flavor(*key, cards[key], tuple(sorted(offers[key].items()))) for key in sorted(cards))


def _offers(node: Node) -> Counter[str]:
    found: Counter[str] = Counter()
    single = dict(node.labels).get(STRATEGY) == "single"
    for device in node.devices:
        for instance in device.instances:
            found[GPU if single else mig_resource(instance.profile)] += 1
        if not device.instances:
            found[GPU] += 1 if single else units(node)
    return found


def queue_shares(queues: Iterable[Queue], kinds: Iterable[Flavor]) -> tuple[QueueShare, ...]:
    """Every queue, parents before children, names sorted."""
    tree, sizes = Tree(queues), sizes_of(kinds)
    return tuple(
        QueueShare(
            name=name,
            parent=tree.queues[name].parent if tree.queues[name].parent in tree.queues else None,
            is_leaf=not tree.children.get(name),
            weight=tree.queues[name].weight,
            deserved=_by_model({k: Fraction(g, GRAIN) for k, g in tree.deserved(name).items()}, sizes),
            limit=limits(tree.queues[name], sizes),
            most=_most(tree.queues[name], sizes),
        )
        for name in sorted(tree.queues, key=lambda n: (len(tree.chain(n)), n))
    )


def limits(queue: Queue, models: Iterable[str]) -> dict[str, Fraction | None]:
    return {model: bound(model, gpus_of(queue.limit)) for model in models}


def _most(queue: Queue, models: Iterable[str]) -> Fraction | None:
    """`*`, or the sum of the models' own limits where each has one."""
    bounds = list(limits(queue, models).values())
    known = [found for found in bounds if found is not None]
    if not known or len(known) < len(bounds):
        return None
    return min(sum(known, Fraction(0)), gpus_of(queue.limit).get(ANY_MODEL, sum(known, Fraction(0))))


def sizes_of(kinds: Iterable[Flavor]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind in kinds:
        found[kind.model] += kind.gpus
    return dict(found)


def _by_model(amounts: Gpus, sizes: Mapping[str, int]) -> dict[str, Fraction]:
    """What is promised of any model is spread over the models by their number; a model's own promise comes first."""
    own = {model: min(amounts.get(model, Fraction(0)), Fraction(size)) for model, size in sizes.items()}
    rest = max(Fraction(0), amounts.get(ANY_MODEL, Fraction(0)) - sum(own.values()))
    room = {model: size - own[model] for model, size in sizes.items()}
    total = sum(room.values())
    part = min(Fraction(1), rest / total) if total else Fraction(0)
    return {model: own[model] + room[model] * part for model in sizes}


def count_of(amount: Fraction, flavor: Flavor, offered: int, sizes: Mapping[str, int]) -> int:
    """So many of a resource as the amount of GPUs is of all GPUs of the model, rounded down: no promise is too large."""
    return math.floor(amount / sizes[flavor.model] * offered) if sizes.get(flavor.model) else 0
