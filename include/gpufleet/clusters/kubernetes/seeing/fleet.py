"""All facts of one cluster, put together: nodes with their devices, as far as others leave them to us."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpufleet.clusters.kubernetes.labels import Level, SeeingConfig
from gpufleet.clusters.kubernetes.seeing.foreign import Taken
from gpufleet.clusters.kubernetes.seeing.held import Held
from gpufleet.clusters.kubernetes.seeing.layout import Layout, layout_of, written_layout
from gpufleet.clusters.kubernetes.seeing.nodes import MIG_CAPABLE, NodeFact, physical_gpus, replicas
from gpufleet.clusters.kubernetes.seeing.products import mig_profile_of, model_of
from gpufleet.clusters.kubernetes.seeing.slices import SliceFact
from gpufleet.model.hardware import Device, Exactness, GpuModel, MigInstance, MigRemake, Node

PRODUCT: Final = "nvidia.com/gpu.product"
REGION: Final = "topology.kubernetes.io/region"
HOPPER: Final = (9, 0)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the watches know, ready to be read. Maps are by node name."""

    nodes: tuple[NodeFact, ...]
    taken: Mapping[str, Taken] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)
    slices: Mapping[str, SliceFact] = field(default_factory=dict)
    claimed: Mapping[str, set[int]] = field(default_factory=dict)
    """GPUs that claims of others hold."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The nodes that can be planned on, the levels of their positions, and what a person should mend."""

    levels: tuple[str, ...]
    nodes: tuple[Node, ...]
    warnings: tuple[str, ...]


Known = dict[str, tuple[tuple[object, ...], Node | None]]
"""By name, what a node was read from, and what was read: few nodes change from one look to the next."""


def see(facts: ClusterFacts, config: SeeingConfig, cluster: str, known: Known | None = None) -> Seen:
    """Nodes without GPUs are left out silently, those with a GPU nobody knows with a warning.

    `known` is what an earlier look of the same cluster and config left there.
    """
    known = {} if known is None else known
    for name in known.keys() - {fact.name for fact in facts.nodes}:
        del known[name]
    with_gpus = [f for f in facts.nodes if f.name and (physical_gpus(f) or f.has.slices or f.name in facts.slices)]
    levels = [level for level in config.levels if any(_domain(f, level) for f in with_gpus)]
    warnings: list[str] = []
    nodes = []
    for fact in sorted(with_gpus, key=lambda f: f.name):
        node = _again(fact, facts, config, cluster, known)
        if node is None:
            told = next((fact.labels[key] for key in config.models if key in fact.labels), "no label")
            warnings.append(f"node {fact.name} is left out: its GPU ({told}) is not in the catalogue")
            continue
        warnings += [f"node {fact.name} has no label for the level {level.name}: it is a domain of its own"
                     for level in levels if not _domain(fact, level)]  # fmt: skip
        nodes.append(replace(node, position=_position(fact, levels)))
    return Seen(tuple(level.name for level in levels), tuple(nodes), tuple(warnings))


def _again(fact: NodeFact, facts: ClusterFacts, config: SeeingConfig, cluster: str, known: Known) -> Node | None:
    """The node as it was read before, where nothing it is read from has changed."""
    parts = (facts.taken, facts.held, facts.slices, facts.claimed)
    told = (fact, *(part.get(fact.name) for part in parts))
    before = known.get(fact.name)
    if before is None or before[0] != told:
        before = known[fact.name] = (told, _node(fact, facts, config, cluster))
    return before[1]


def _domain(fact: NodeFact, level: Level) -> str:
    return next((fact.labels[label] for label in level.labels if fact.labels.get(label)), "")


def _position(fact: NodeFact, levels: Iterable[Level]) -> tuple[str, ...]:
    """A label that is missing never means `together with the others that lack it`."""
    return tuple(_domain(fact, level) or f"?{fact.name}" for level in levels)


def _node(fact: NodeFact, facts: ClusterFacts, config: SeeingConfig, cluster: str) -> Node | None:
    dra = facts.slices.get(fact.name)
    model = (
        model_of({PRODUCT: dra.gpus[0][1]}, (PRODUCT,)) if dra and dra.gpus else model_of(fact.labels, config.models)
    )
    if model is None:
        return None
    taken, held = facts.taken.get(fact.name, Taken()), facts.held.get(fact.name, Held())
    claimed = facts.claimed.get(fact.name, set())
    devices = _told_devices(dra, claimed) if dra else _counted_devices(fact, model, taken, held)
    return Node(
        name=fact.name,
        model=model,
        devices=devices,
        capacity=fact.capacity,
        state=fact.state,
        link=model.link,
        mig=_remake(fact, model, dra, config, is_free=not taken.slices),
        sharing=replicas(fact) > 1,
        exactness=Exactness.DEVICE if dra else Exactness.COUNT,
        cpu=max(0.0, round(fact.cpu - taken.cpu, 3)) if fact.cpu else None,
        memory_mib=max(0, fact.memory_mib - taken.memory_mib) if fact.memory_mib else None,
        cluster=cluster,
        fabric=fact.fabric,
        instance=fact.instance,
        provider=fact.provider,
        region=fact.labels.get(REGION, ""),
        labels=tuple(sorted(fact.labels.items())),
    )


def _remake(
    fact: NodeFact, model: GpuModel, dra: SliceFact | None, config: SeeingConfig, *, is_free: bool
) -> MigRemake:
    """What the MIG manager can do: it clears a whole GPU, and on Ampere a change of mode takes the whole node."""
    if dra is not None:
        return MigRemake.SLICE if dra.remakes else MigRemake.NEVER
    if not (config.remake_mig and is_free and model.profiles and fact.labels.get(MIG_CAPABLE) == "true"):
        return MigRemake.NEVER
    return MigRemake.EMPTY_GPU if model.compute_capability >= HOPPER else MigRemake.EMPTY_NODE


# ------------------------------------------------------------------ devices


def _told_devices(dra: SliceFact, claimed: set[int]) -> tuple[Device, ...]:
    return tuple(Device(index, healthy=index not in claimed) for index, _, _ in dra.gpus)


def _counted_devices(fact: NodeFact, model: GpuModel, taken: Taken, held: Held) -> tuple[Device, ...]:
    """As many usable GPUs and slices as the node gives and others leave. Which ones they are, no one tells: those that
    our pods were planned on count as ours, the last of the others as taken or broken."""
    profile = mig_profile_of(fact.labels.get(PRODUCT, ""))
    if profile is not None and model.profile(profile) is not None:
        return _single(fact, model, profile, taken, held)
    gpus = physical_gpus(fact)
    whole = max(fact.has.gpus, fact.gives.gpus) // replicas(fact)
    counts = {p: n for p, n in fact.has.slices if model.profile(p) is not None}
    laid = layout_of(
        model, counts, gpus=gpus, whole=whole, wanted=written_layout(fact.layout), held=held.layout
    ) if counts else {}  # fmt: skip
    free = max(0, fact.gives.gpus - taken.gpus) // replicas(fact)
    kept = _kept(laid, Counter(dict(fact.gives.slices)) - taken.slices, held.layout)
    usable = _first(free, [gpu for gpu in range(gpus) if gpu not in laid], held.gpus)
    return tuple(Device(gpu, kept.get(gpu, ()), gpu in usable or bool(kept.get(gpu))) for gpu in range(gpus))


def _single(fact: NodeFact, model: GpuModel, profile: str, taken: Taken, held: Held) -> tuple[Device, ...]:
    """Strategy `single`: what the node calls a GPU is a slice, all of one profile."""
    found = model.profile(profile)
    on_one = found.max_instances if found else 1
    slices = max(fact.has.gpus, fact.gives.gpus)
    gpus = max(1, -(-slices // on_one))
    laid = layout_of(model, {profile: slices}, gpus=gpus, whole=0, wanted={}, held=held.layout)
    kept = _kept(laid, Counter({profile: max(0, fact.gives.gpus - taken.gpus)}), held.layout)
    return tuple(Device(gpu, kept.get(gpu, ()), bool(kept.get(gpu))) for gpu in range(gpus))


def _first(count: int, among: list[int], held: frozenset[int]) -> set[int]:
    """So many of these GPUs: the held ones before the others, the low ones before the high ones."""
    return set(sorted(among, key=lambda gpu: (gpu not in held, gpu))[:count])


def _kept(laid: Layout, allowed: Counter[str], held: Layout) -> Layout:
    """At most `allowed` instances of each profile: the held ones before the others."""
    mine = {(gpu, i) for gpu, instances in held.items() for i in instances}
    every = [(gpu, i) for gpu, instances in laid.items() for i in instances]
    left, found = Counter(allowed), dict[int, list[MigInstance]]()
    for gpu, instance in sorted(every, key=lambda entry: (entry not in mine, entry)):
        if left[instance.profile] > 0:
            left[instance.profile] -= 1
            found.setdefault(gpu, []).append(instance)
    return {gpu: tuple(sorted(instances)) for gpu, instances in found.items()}
