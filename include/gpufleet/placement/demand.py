"""What one pod asks of one node: how many such pods it can take now, and which devices the next one gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.model.hardware import GpuModel, Link, MigInstance, MigProfile
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Demand, PodSet, Share, Slice, Whole
from gpufleet.placement.card import Card
from gpufleet.placement.geometry import geometry
from gpufleet.placement.ledger import Ledger, NodeBook

MANY = 1_000_000
"""Stands for "as many as you like" where nothing bounds a count."""

Worth = tuple[int, ...]
"""How good a place is, smaller is better; compared only between places of one demand."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The best place for one slice or share on a node."""

    worth: Worth
    gpu: int
    instance: MigInstance | None = None


def capacity(ledger: Ledger, book: NodeBook, pod: PodSet) -> int:
    """How many such pods the node can take now."""
    found = _host_capacity(ledger, book, pod)
    if found == 0:
        return 0
    match pod.demand:
        case Whole(gpus):
            return found if gpus == 0 else min(found, len(book.free) // gpus)
        case Slice() | Share() as demand:
            key = (demand, Reason.MEMORY in ledger.ignore)
            if key not in book.memo:
                book.memo[key] = sum(_card_capacity(ledger, book, i, demand) for i in range(len(book.cards)))
            return min(found, int(book.memo[key]))


def capacities(ledger: Ledger, names: Iterable[str], pod: PodSet) -> dict[str, int]:
    """The same for many nodes; pods of whole GPUs without host needs, the usual case, in one quick loop."""
    books = ledger.books
    if not isinstance(pod.demand, Whole) or not pod.demand.gpus:
        return {name: capacity(ledger, books[name], pod) for name in names}
    gpus = pod.demand.gpus
    if not pod.cpu and not pod.memory_mib:
        return {name: len(books[name].free) // gpus for name in names}
    return {
        name: min(len(books[name].free) // gpus, _host_capacity(ledger, books[name], pod))
        if len(books[name].free) >= gpus and books[name].has_host
        else len(books[name].free) // gpus
        for name in names
    }


def _host_capacity(ledger: Ledger, book: NodeBook, pod: PodSet) -> int:
    if Reason.HOST_RESOURCES in ledger.ignore:
        return MANY
    found = MANY
    if pod.cpu and book.cpu is not None:
        found = min(found, int(max(0.0, book.cpu) / pod.cpu + 1e-9))
    if pod.memory_mib and book.memory_mib is not None:
        found = min(found, max(0, book.memory_mib) // pod.memory_mib)
    return found


def _card_capacity(ledger: Ledger, book: NodeBook, index: int, demand: Slice | Share) -> int:
    card = book.cards[index]
    if not book.usable[index] or card.whole is not None:
        return 0
    if isinstance(demand, Share):
        return _share_capacity(ledger, book, index, demand)
    return 0 if card.shares else _slice_capacity(book, index, demand)


def _slice_capacity(book: NodeBook, index: int, demand: Slice) -> int:
    card, suitable = book.cards[index], book.table.suitable(demand)
    if not suitable:
        return 0
    existing = sum(1 for i in card.free if _serves(i, suitable) and not book.table.mask(i) & card.taken)
    if not book.may_remake(index):
        return existing
    smallest = suitable[0]
    left = smallest.max_instances - _count(card, smallest)
    return max(existing, min(left, book.table.slots(smallest, card.taken)))


def _serves(instance: MigInstance, suitable: tuple[MigProfile, ...]) -> bool:
    return any(p.name == instance.profile for p in suitable)


def _count(card: Card, profile: MigProfile) -> int:
    return sum(1 for instance, _ in card.used if instance.profile == profile.name)


def share_memory(demand: Share, model: GpuModel) -> int:
    """What a share takes of the card's memory: as asked, else in proportion to its part of the card."""
    return demand.memory_mib or model.memory_mib * demand.milli // 1000


def _share_capacity(ledger: Ledger, book: NodeBook, index: int, demand: Share) -> int:
    card = book.cards[index]
    if card.taken or card.used or (card.free and not book.may_remake(index)):
        return 0
    found = (1000 - card.milli) // demand.milli
    memory = share_memory(demand, book.node.model)
    if memory and Reason.MEMORY not in ledger.ignore:
        found = min(found, (book.node.model.memory_mib - card.memory_mib) // memory)
    return max(0, found)


# ---------------------------------------------------------------- which devices


def best_spot(ledger: Ledger, book: NodeBook, demand: Slice | Share) -> Spot | None:
    """The slice or share of this node that leaves the most room."""
    key = ("spot", demand, Reason.MEMORY in ledger.ignore)
    if key not in book.memo:
        spots = _share_spots(ledger, book, demand) if isinstance(demand, Share) else _slice_spots(book, demand)
        book.memo[key] = min(spots, key=lambda s: s.worth, default=None)
    found: Spot | None = book.memo[key]
    return found


def _share_spots(ledger: Ledger, book: NodeBook, demand: Share) -> list[Spot]:
    """Fill the opened card, the fullest first; open a new one last."""
    return [
        Spot(
            (
                int(not card.shares),
                len(card.free),
                1000 - card.milli - demand.milli,
                -card.memory_mib,
                _breaks_pair(book, index),
                index,
            ),
            index,
        )
        for index, card in enumerate(book.cards)
        if _card_capacity(ledger, book, index, demand) > 0
    ]


def _slice_spots(book: NodeBook, demand: Slice) -> list[Spot]:
    """Spots of the smallest profile that has any on this node."""
    for waste, profile in enumerate(book.table.suitable(demand)):
        spots = [
            spot
            for index, card in enumerate(book.cards)
            if book.usable[index] and card.whole is None and not card.shares
            for spot in _card_spots(book, index, profile, waste)
        ]
        if spots:
            return spots
    return []


def _card_spots(book: NodeBook, index: int, profile: MigProfile, waste: int) -> list[Spot]:
    """First what exists; then cards opened already; then what keeps most possible; then the higher start."""
    card, table = book.cards[index], book.table
    if _count(card, profile) >= profile.max_instances:
        return []
    remake, room = book.may_remake(index), table.room(card.taken)
    spots = []
    for cut in table.cuts[profile.name]:
        exists = cut.instance in card.free
        if cut.mask & card.taken or not (exists or remake):
            continue
        left = table.room(card.taken | cut.mask)
        destroyed = 0 if exists else sum(1 for i in card.free if table.mask(i) & cut.mask)
        opens = int(not card.used) * (1 + _breaks_pair(book, index))
        worth = (waste, int(not exists), opens, room - left, left, destroyed, -cut.instance.start, index)
        spots.append(Spot(worth, index, cut.instance))
    return spots


def _breaks_pair(book: NodeBook, index: int) -> int:
    """1 where opening this card leaves its bridge partner a widow."""
    return int(book.node.link is Link.NVLINK_PAIRS and index in book.free and index ^ 1 in book.free)


def take(ledger: Ledger, book: NodeBook, pod: PodSet, pod_set: int, job: str) -> PodPlace:
    """Give the pod its devices on this node; the caller has checked that it fits. Ranks are set later."""
    demand = pod.demand
    gpus: tuple[int, ...] = ()
    slices: tuple[SliceOn, ...] = ()
    shares: tuple[ShareOn, ...] = ()
    if isinstance(demand, Whole):
        gpus = choose_gpus(book, demand.gpus)
    else:
        spot = best_spot(ledger, book, demand)
        assert spot is not None, "capacity was checked by the caller"
        if isinstance(demand, Share):
            shares = (ShareOn(spot.gpu, demand.milli, share_memory(demand, book.node.model)),)
        elif spot.instance is not None:
            slices = (SliceOn(spot.gpu, spot.instance),)
    place = PodPlace(pod_set, -1, book.node.name, gpus, slices, shares, pod.cpu, pod.memory_mib)
    ledger.add(place, job)
    return place


def choose_gpus(book: NodeBook, count: int) -> tuple[int, ...]:
    """Free GPUs for one pod: without instances to destroy first; whole bridge pairs, and widows for a single one."""
    free = sorted(book.free, key=lambda i: (bool(book.cards[i].free), i))
    if book.node.link is not Link.NVLINK_PAIRS:
        return tuple(sorted(free[:count]))
    have = set(free)
    pairs = [(i, i + 1) for i in free if i % 2 == 0 and i + 1 in have]
    widows = [i for i in free if i ^ 1 not in have]
    chosen = [gpu for pair in pairs[: count // 2] for gpu in pair]
    rest = widows + [gpu for pair in reversed(pairs[count // 2 :]) for gpu in pair]
    return tuple(sorted([*chosen, *rest[: count - len(chosen)]]))


def smallest_cost(model: GpuModel, demand: Demand) -> int | None:
    """Grains a pod costs a quota at least on this model, or None where the model cannot serve it."""
    match demand:
        case Whole(gpus):
            return gpus * 21_000
        case Share(milli):
            return milli * 21
        case Slice():
            suitable = geometry(model).suitable(demand)
            return model.slice_amount(suitable[0]).grains if suitable else None
