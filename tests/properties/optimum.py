"""The best there is, by trying everything: whether a gang fits a small fleet, and how many of some jobs fit together.

It shares the facts (nodes, jobs, the catalogue's profiles) with the product and no line of its reasoning. Cards are
described by what is on them, and equal cards of a node are one: that, and remembering states, is all its cleverness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gpufleet.model.hardware import GpuModel, MigInstance, MigProfile, MigRemake, Node, NodeState
from gpufleet.model.snapshot import PodPlace, Snapshot
from gpufleet.model.workload import Demand, Job, PodSet, Share, Slice, Whole


@dataclass(frozen=True, order=True)
class Card:
    """What is on one healthy card. `cells` = memory slices in use; `fixed` = it keeps the instances that exist."""

    whole: bool = False
    cells: int = 0
    slices: tuple[str, ...] = ()
    milli: int = 0
    memory: int = 0
    idle: tuple[MigInstance, ...] = ()
    fixed: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.whole or self.cells or self.milli)


@dataclass(frozen=True)
class Host:
    """A node's cards (sorted: equal ones are one) and what is left of its host; None = it constrains nothing."""

    cards: tuple[Card, ...]
    cpu: float | None
    memory: int | None


Fleet = tuple[Host, ...]
"""One entry for each node of the snapshot, in its order."""


def fits(snapshot: Snapshot, job: Job) -> bool:
    """Whether all pods of the job have places beside what runs, by any choice of nodes, cards and starts."""
    return any(True for _ in _placements(snapshot, start_of(snapshot), job))


def most(snapshot: Snapshot, jobs: Sequence[Job]) -> int:
    """The most jobs that run together, by any choice of jobs and places. No quotas."""

    @cache
    def best(number: int, fleet: Fleet) -> int:
        if number == len(jobs):
            return 0
        left, found = len(jobs) - number, 0
        for after in _placements(snapshot, fleet, jobs[number]):
            found = max(found, 1 + best(number + 1, after))
            if found == left:
                return found
        return max(found, best(number + 1, fleet)) if found < left - 1 else found

    return best(0, start_of(snapshot))


def most_in_order(snapshot: Snapshot, jobs: Sequence[Job]) -> int:
    """The most that run together when nobody in the line who could start is passed over: only *where* is chosen."""

    @cache
    def best(number: int, fleet: Fleet) -> int:
        if number == len(jobs):
            return 0
        found = 0
        for after in _placements(snapshot, fleet, jobs[number]):
            found = max(found, 1 + best(number + 1, after))
            if found == len(jobs) - number:
                return found
        return found or best(number + 1, fleet)

    return best(0, start_of(snapshot))


# ---------------------------------------------------------------- the fleet as it is


def start_of(snapshot: Snapshot) -> Fleet:
    """The fleet with what runs on it."""
    places = [p for run in snapshot.running for p in run.places]
    return tuple(_host(node, [p for p in places if p.node == node.name]) for node in snapshot.nodes)


def _host(node: Node, places: Sequence[PodPlace]) -> Host:
    cards = []
    for device in node.devices:
        mine = [p for p in places if device.index in p.devices]
        remake = {
            MigRemake.SLICE: True,
            MigRemake.EMPTY_GPU: not mine,
            MigRemake.EMPTY_NODE: not places,
            MigRemake.NEVER: False,
        }
        card = Card(idle=tuple(sorted(device.instances)), fixed=not remake[node.mig])
        for place in mine:
            card = _with_place(card, node.model, place, device.index)
        if device.healthy:
            cards.append(card if card.fixed else replace(card, idle=()))
    cpu = None if node.cpu is None else node.cpu - sum(p.cpu or 0 for p in places)
    memory = None if node.memory_mib is None else node.memory_mib - sum(p.memory_mib or 0 for p in places)
    return Host(tuple(sorted(cards)), cpu, memory)


def _with_place(card: Card, model: GpuModel, place: PodPlace, index: int) -> Card:
    for piece in (s.instance for s in place.slices if s.gpu == index):
        card = _with_slice(card, model, piece)
    for share in (s for s in place.shares if s.gpu == index):
        card = replace(card, milli=card.milli + share.milli, memory=card.memory + share.memory_mib)
    return replace(card, whole=True) if index in place.gpus else card


def _with_slice(card: Card, model: GpuModel, piece: MigInstance) -> Card:
    return replace(
        card,
        cells=card.cells | _cells(model, piece),
        slices=tuple(sorted([*card.slices, piece.profile])),
        idle=tuple(i for i in card.idle if i != piece),
    )


def _cells(model: GpuModel, piece: MigInstance) -> int:
    profile = next(p for p in model.profiles if p.name == piece.profile)
    return ((1 << profile.size) - 1) << piece.start


# ---------------------------------------------------------------- every placement of one gang


def _placements(snapshot: Snapshot, fleet: Fleet, job: Job) -> Iterator[Fleet]:
    """The fleet after the job has started, in every way that makes a difference."""
    pods = [s for s in job.pod_sets for _ in range(s.count)]
    seen: set[Fleet] = set()
    for group in _groups(snapshot, job):
        for after in _place(snapshot, fleet, pods, group, 0):
            if after not in seen:
                seen.add(after)
                yield after


def _groups(snapshot: Snapshot, job: Job) -> list[tuple[int, ...]]:
    """Numbers of nodes that a gang may use together: one model, one cluster, one domain of what it requires."""
    found: dict[tuple[object, ...], list[int]] = {}
    for number, node in enumerate(snapshot.nodes):
        if node.state is NodeState.READY and (not job.models or node.model.name in job.models):
            kind = (node.model.name, node.cluster, _domain(snapshot, node, job.topology.required))
            found.setdefault(kind, []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def _domain(snapshot: Snapshot, node: Node, level: str | None) -> object:
    if level is None:
        return None
    depth = len(snapshot.levels) + 1 if level == "node" else snapshot.levels.index(level) + 1
    labelled = len(node.position) >= depth and all(node.position[:depth])
    return node.position[:depth] if labelled else node.name


def _place(
    snapshot: Snapshot, fleet: Fleet, pods: Sequence[PodSet], group: Sequence[int], least: int
) -> Iterator[Fleet]:
    """Pods one after the other; equal neighbours never go back to an earlier node."""
    if not pods:
        yield fleet
        return
    first, rest = pods[0], pods[1:]
    for position in range(least, len(group)):
        number = group[position]
        follows = position if rest and rest[0] is first else 0
        for host in _on(snapshot.nodes[number], fleet[number], first):
            yield from _place(snapshot, (*fleet[:number], host, *fleet[number + 1 :]), rest, group, follows)


def _on(node: Node, host: Host, pod: PodSet) -> list[Host]:
    """The node after the pod has started there, in every way that makes a difference."""
    cpu = None if host.cpu is None else host.cpu - (pod.cpu or 0)
    memory = None if host.memory is None else host.memory - (pod.memory_mib or 0)
    if (cpu or 0) < 0 or (memory or 0) < 0:
        return []
    return [Host(cards, cpu, memory) for cards in sorted(_on_cards(node, host.cards, pod.demand))]


def _on_cards(node: Node, cards: tuple[Card, ...], demand: Demand) -> set[tuple[Card, ...]]:
    if isinstance(demand, Whole):
        free = [c for c in cards if c.is_empty and not c.idle]
        if len(free) < demand.gpus:
            return set()
        return {_all_of(cards, [(c, replace(c, whole=True)) for c in chosen]) for chosen in _choices(free, demand.gpus)}
    return {_all_of(cards, [(old, new)]) for old in set(cards) for new in _on_card(node, old, demand)}


def _choices(cards: Sequence[Card], count: int) -> set[tuple[Card, ...]]:
    """Every multiset of so many of these cards."""
    if count == 0:
        return {()}
    return {(card, *rest) for i, card in enumerate(cards) for rest in _choices(cards[i + 1 :], count - 1)}


def _all_of(cards: tuple[Card, ...], changes: Sequence[tuple[Card, Card]]) -> tuple[Card, ...]:
    left = list(cards)
    for old, new in changes:
        left[left.index(old)] = new
    return tuple(sorted(left))


def _on_card(node: Node, card: Card, demand: Share | Slice) -> Iterator[Card]:
    if isinstance(demand, Slice):
        yield from _cut(node.model, card, demand)
        return
    milli, memory = card.milli + demand.milli, card.memory + demand.memory_mib
    is_open = node.sharing and not card.whole and not card.cells and not card.idle
    if is_open and milli <= 1000 and memory <= node.model.memory_mib:
        yield replace(card, milli=milli, memory=memory)


def _cut(model: GpuModel, card: Card, demand: Slice) -> Iterator[Card]:
    if card.whole or card.milli:
        return
    for profile in (p for p in model.profiles if _serves(p, demand)):
        if not card.fixed and card.slices.count(profile.name) >= profile.max_instances:
            continue
        for start in profile.starts:
            piece = MigInstance(start, profile.name)
            if not card.cells & _cells(model, piece) and (not card.fixed or piece in card.idle):
                yield _with_slice(card, model, piece)


def _serves(profile: MigProfile, demand: Slice) -> bool:
    """Variants with a media or graphics engine (`1g.10gb+me`) only by name: that is a promise, not a shortcoming."""
    if demand.profile is not None:
        return demand.profile == profile.name
    return profile.name.endswith("gb") and profile.memory_mib >= demand.memory_mib and profile.compute >= demand.compute
