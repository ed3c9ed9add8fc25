"""What must be remade on the cards for a plan: instances before against instances after."""

from __future__ import annotations

from gpufleet.model.hardware import MigInstance
from gpufleet.model.plan import Repartition
from gpufleet.placement.card import Card
from gpufleet.placement.ledger import Ledger


def repartitions(ledger: Ledger) -> tuple[Repartition, ...]:
    """One entry per card whose instances change, sorted by node and GPU."""
    found = []
    for name in sorted(ledger.books):
        after = ledger.books[name].cards
        for index, before in enumerate(ledger.initial[name]):
            if after[index] is not before and (change := _change(name, index, before, after[index])):
                found.append(change)
    return tuple(found)


def _change(node: str, gpu: int, before: Card, after: Card) -> Repartition | None:
    had, has = _instances(before), _instances(after)
    if had == has:
        return None
    return Repartition(node, gpu, tuple(sorted(has - had)), tuple(sorted(had - has)))


def _instances(card: Card) -> set[MigInstance]:
    return {*card.free, *(instance for instance, _ in card.used)}
