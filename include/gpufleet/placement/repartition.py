"""What must be remade on the cards for a plan: instances before against instances after."""

from __future__ import annotations

from gpufleet.model.hardware import MigInstance
from gpufleet.model.plan import Repartition
from gpufleet.placement.card import Card
from gpufleet.placement.ledger import Ledger, NodeBook


def repartitions(ledger: Ledger) -> tuple[Repartition, ...]:
    """One entry per card whose instances change, sorted by node and GPU."""
    found = []
    for name in sorted(ledger.books):
        book = ledger.books[name]
        for index, before in enumerate(ledger.initial[name]):
            if book.cards[index] is not before and (change := _change(book, index, before)):
                found.append(change)
    return tuple(found)


def _change(book: NodeBook, gpu: int, before: Card) -> Repartition | None:
    had, has = _instances(before), _instances(book.cards[gpu])
    if had == has:
        return None
    # The driver refuses some orders that end in a legal layout; the largest first always works (MIG User Guide).
    create = sorted(has - had, key=lambda i: (-book.table.mask(i).bit_count(), i))
    kept = len(had & has)
    return Repartition(book.node.name, gpu, tuple(create), tuple(sorted(had - has)), book.node.mig, kept)


def _instances(card: Card) -> set[MigInstance]:
    return {*card.free, *(instance for instance, _ in card.used)}
