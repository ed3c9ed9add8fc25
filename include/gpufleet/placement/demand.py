"""What one pod asks of one node: how many such pods it can take now, and which devices the next one gets."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpufleet.model.hardware import GpuModel, Link, MigInstance, MigProfile, MigRemake
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Demand, PodSet, Share, Slice, Whole
from gpufleet.placement.card import Card
from gpufleet.placement.geometry import WASTE_BITS, CardPlace, geometry
from gpufleet.placement.ledger import Ledger, NodeBook

MANY: Final = 1_000_000
"""Stands for "as many as you like" where nothing bounds a count."""


class Spot(NamedTuple):
    """A place for one slice; `key` says how good it is, smaller is better."""

    key: int
    gpu: int
    instance: MigInstance


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
    held = sum(1 for *_, name in card.held if name == profile.name)
    return held + sum(1 for instance, _ in card.used if instance.profile == profile.name)


def share_memory(demand: Share, model: GpuModel) -> int:
    """What a share takes of the card's memory: as asked, else in proportion to its part of the card."""
    return demand.memory_mib or model.memory_mib * demand.milli // 1000


def _share_capacity(ledger: Ledger, book: NodeBook, index: int, demand: Share) -> int:
    if not book.node.sharing and Reason.SHARING not in ledger.ignore:
        return 0
    found = book.milli[index] // demand.milli
    memory = share_memory(demand, book.node.model)
    if memory and Reason.MEMORY not in ledger.ignore:
        found = min(found, book.spare_mib[index] // memory)
    return max(0, found)


# ---------------------------------------------------------------- which devices


def best_spot(book: NodeBook, demand: Slice) -> Spot | None:
    """The slice of this node that leaves the most room: of the smallest profile that has any place here."""
    if demand not in book.memo:
        book.memo[demand] = _best_spot(book, demand)
    found: Spot | None = book.memo[demand]
    return found


def _best_spot(book: NodeBook, demand: Slice) -> Spot | None:
    for waste, profile in enumerate(book.table.suitable(demand)):
        places = _places(book, profile)
        best = min(places, default=NOWHERE)  # a node may have no GPU at all
        if best < NOWHERE:
            return Spot((waste << WASTE_BITS) + best[0], places.index(best), best.instance)
    return None


NOWHERE: Final = CardPlace(1 << WASTE_BITS, MigInstance(0, ""))


def _places(book: NodeBook, profile: MigProfile) -> list[CardPlace]:
    """By card, the best place of the profile; only cards that changed are looked at again."""
    known = book.places.get(profile.name)
    if known is None:
        known = book.places[profile.name] = [NOWHERE] * len(book.cards), set(range(len(book.cards)))
    found, stale = known
    for index in stale:
        found[index] = _on_card(book, index, profile) or NOWHERE
    stale.clear()
    return found


def _on_card(book: NodeBook, index: int, profile: MigProfile) -> CardPlace | None:
    card = book.cards[index]
    if not book.usable[index] or card.whole is not None or card.shares:
        return None
    if profile.max_instances < len(profile.starts) and _count(card, profile) >= profile.max_instances:
        return None
    opens = 0 if card.used else 1 + _breaks_pair(book, index)
    remake = book.node.mig is MigRemake.SLICE or book.may_remake(index)
    return book.table.best_place(profile, card.taken, card.free, opens, remake=remake)


def _breaks_pair(book: NodeBook, index: int) -> int:
    """1 where opening this card leaves its bridge partner a widow."""
    return int(book.node.link is Link.NVLINK_PAIRS and index in book.free and index ^ 1 in book.free)


def take(ledger: Ledger, book: NodeBook, pod: PodSet, pod_set: int, job: str, card: int | None = None) -> PodPlace:
    """Give the pod its devices on this node; the caller has checked that it fits, and chose the card for a share.

    Ranks are set later; 0 is right for a job of one pod.
    """
    demand = pod.demand
    gpus: tuple[int, ...] = ()
    slices: tuple[SliceOn, ...] = ()
    shares: tuple[ShareOn, ...] = ()
    if isinstance(demand, Whole):
        gpus = choose_gpus(book, demand.gpus)
    elif isinstance(demand, Share):
        assert card is not None, "a share is given a card by name"
        shares = (ShareOn(card, demand.milli, share_memory(demand, book.node.model)),)
    else:
        spot = best_spot(book, demand)
        assert spot is not None, "capacity was checked by the caller"
        slices = (SliceOn(spot.gpu, spot.instance),)
    place = PodPlace(pod_set, 0, book.node.name, gpus, slices, shares, pod.cpu, pod.memory_mib)
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
