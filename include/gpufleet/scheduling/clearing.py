"""Whom moves would have to take away so that one pod fits: the cards, or the cells of a card, with least on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpufleet.model.snapshot import Pending
from gpufleet.model.workload import PodSet, Slice
from gpufleet.placement.demand import capacity
from gpufleet.placement.geometry import Cut
from gpufleet.placement.ledger import NodeBook
from gpufleet.scheduling.aside import Mover
from gpufleet.scheduling.ever import whole_gpus
from gpufleet.scheduling.session import Session

CELLS: Final = 4
"""Places of a slice that are tried on one node, cheapest first."""


def frees_enough(session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    """Cheap and necessary: cards that are free, and those nobody but the movers is on, are as many as are needed."""
    need, books = whole_gpus(pending.job), session.ledger.books
    if not need:
        return True
    free = sum(len(books[n].free) for names in nodes.values() for n in names)
    return free + len(_cards_left_empty(session, movers)) >= need


def _cards_left_empty(session: Session, movers: Sequence[Mover]) -> set[tuple[str, int]]:
    """Cards on which nobody stays when the movers have gone."""
    names, books = {m.job for m in movers}, session.ledger.books
    cards = {(p.node, gpu) for m in movers for p in m.places for gpu in p.devices}
    return {(node, gpu) for node, gpu in cards if names.issuperset(books[node].cards[gpu].holders())}


def on_cheapest_cards(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> Sequence[Mover]:
    """Everybody on the cards of a node with least to move, until enough are free; nobody where all are not enough."""
    if not frees_enough(session, pending, movers, nodes):
        return ()
    on: dict[tuple[str, int], list[Mover]] = {}
    for mover in movers:
        for place in mover.places:
            for gpu in place.devices:
                on.setdefault((place.node, gpu), []).append(mover)
    empty = _cards_left_empty(session, movers)

    def price(card: tuple[str, int]) -> tuple[object, ...]:
        here = on[card]
        return sum(m.lost for m in here), sum(session.cost(m.places) for m in here), card

    chosen: dict[str, Mover] = {}
    for card in sorted(empty, key=price):
        if chosen and frees_enough(session, pending, list(chosen.values()), nodes):
            break
        chosen |= {m.job: m for m in on[card]}
    found = list(chosen.values())
    return found if _have_other_places(session, found) else ()


def on_cheapest_cells(
    session: Session, pending: Pending, demand: Slice, movers: Sequence[Mover], nodes: Mapping[str, Sequence[str]]
) -> Iterator[Sequence[Mover]]:
    """Everybody in the way of one legal start of the slice, for the few starts with least in the way."""
    by_name = {m.job: m for m in movers}
    for model, names in nodes.items():
        small = _goes_anywhere(session, pending, model)
        found = [
            [by_name[job] for job in jobs]
            for name in names
            for jobs in _in_the_way(session.ledger.books[name], demand, smaller=small)
            if jobs <= by_name.keys()
        ]
        found = [movers for movers in found if _have_other_places(session, movers)]
        yield from sorted(found, key=lambda ms: _price(session, ms))[:CELLS]


def _goes_anywhere(session: Session, pending: Pending, model: str) -> bool:
    """Then only what is smaller than the slice is worth moving: where something else fits, the slice itself would."""
    return len(session.eligible(pending)[model]) == sum(n.model.name == model for n in session.nodes.values())


def _have_other_places(session: Session, movers: Sequence[Mover]) -> bool:
    """Whether as many slices like theirs are free: cheap, and necessary unless they fit where another mover was."""
    need = Counter(s.instance.profile for m in movers for p in m.places for s in p.slices)
    ledger = session.ledger
    for profile, count in need.items():
        pod = PodSet(1, Slice(profile=profile))
        if sum(capacity(ledger, book, pod) for book in ledger.books.values()) < count:
            return False
    return True


def _in_the_way(book: NodeBook, demand: Slice, *, smaller: bool) -> Iterator[set[str]]:
    """By legal start of the smallest profile, the jobs on its cells."""
    profile = book.table.suitable(demand)[0]
    for index, card in enumerate(book.cards):
        if not book.usable[index] or card.shares or card.held:
            continue
        if card.whole is not None:
            yield from () if smaller else ({card.whole},)
            continue
        for cut in book.table.cuts[profile.name]:
            yield from _on_cells(book, index, cut, profile.size if smaller else book.node.model.memory_slices + 1)


def _on_cells(book: NodeBook, index: int, cut: Cut, below: int) -> Iterator[set[str]]:
    masks = [(book.table.mask(instance), job) for instance, job in book.cards[index].used]
    here = [(mask, job) for mask, job in masks if mask & cut.mask]
    if here and all(mask.bit_count() < below for mask, _ in here):
        yield {job for _, job in here}


def _price(session: Session, movers: Sequence[Mover]) -> tuple[object, ...]:
    return sum(m.lost for m in movers), sum(session.cost(m.places) for m in movers), sorted(m.job for m in movers)
