"""What is on one GPU now. A card is never changed in place: every step makes a new one, so undo is putting back."""

from __future__ import annotations

from typing import NamedTuple

from gpufleet.model.hardware import MigInstance
from gpufleet.model.snapshot import ShareOn
from gpufleet.placement.geometry import Geometry


class Card(NamedTuple):
    """One GPU: whole for one job, or cut into instances, or shared; `held` cells and `whole` may be a reservation's.

    A named tuple, for a pass makes more of them than of anything else.
    """

    whole: str | None = None
    used: tuple[tuple[MigInstance, str], ...] = ()
    free: tuple[MigInstance, ...] = ()
    shares: tuple[tuple[str, int, int], ...] = ()
    """(job, thousandths, MiB)"""
    held: tuple[tuple[str, int, str], ...] = ()
    """(holder, cells that may not be cut, profile of the instance that is still there)"""
    taken: int = 0
    """Cells used or held."""

    @property
    def is_untouched(self) -> bool:
        """Nothing of any job on it (free instances may exist)."""
        return self.whole is None and not self.used and not self.shares and not self.held

    @property
    def milli(self) -> int:
        return sum(share[1] for share in self.shares)

    @property
    def memory_mib(self) -> int:
        return sum(share[2] for share in self.shares)

    def holders(self) -> tuple[str, ...]:
        """Every job (or hold) on the card."""
        whole = () if self.whole is None else (self.whole,)
        return (*whole, *(job for _, job in self.used), *(s[0] for s in self.shares), *(h[0] for h in self.held))


def with_whole(card: Card, job: str | None) -> Card:
    """The card given whole to `job`, or given back; instances in the way are destroyed."""
    return Card(job, card.used, () if job is not None else card.free, card.shares, card.held, card.taken)


def with_slice(card: Card, table: Geometry, instance: MigInstance, job: str) -> Card:
    """An instance in use: an existing one, or a new one for which free ones in the way are destroyed."""
    mask = table.mask(instance)
    free = tuple(i for i in card.free if not table.mask(i) & mask) if card.free else ()
    return Card(card.whole, (*card.used, (instance, job)), free, card.shares, card.held, card.taken | mask)


def without_slice(card: Card, table: Geometry, instance: MigInstance, job: str) -> Card:
    """The instance is free again; it goes on existing."""
    used = list(card.used)
    used.remove((instance, job))
    rest = Card(used=tuple(used), held=card.held)
    return card._replace(used=tuple(used), free=(*card.free, instance), taken=_taken(rest, table))


def with_share(card: Card, job: str, share: ShareOn) -> Card:
    held = (*card.shares, (job, share.milli, share.memory_mib))
    return Card(card.whole, card.used, (), held, card.held, card.taken)


def without_share(card: Card, job: str, share: ShareOn) -> Card:
    shares = list(card.shares)
    shares.remove((job, share.milli, share.memory_mib))
    return card._replace(shares=tuple(shares))


def with_hold(card: Card, table: Geometry, holder: str, instance: MigInstance) -> Card:
    """Cells nobody may cut, for a reservation or for work that is just leaving them."""
    mask = table.mask(instance)
    return card._replace(held=(*card.held, (holder, mask, instance.profile)), taken=card.taken | mask)


def without_hold(card: Card, table: Geometry, holder: str) -> Card:
    """Everything that holder held is open again."""
    rest = card._replace(
        whole=None if card.whole == holder else card.whole,
        shares=tuple(s for s in card.shares if s[0] != holder),
        held=tuple(h for h in card.held if h[0] != holder),
    )
    return rest._replace(taken=_taken(rest, table))


def _taken(card: Card, table: Geometry) -> int:
    found = table.masks(instance for instance, _ in card.used)
    for _, mask, _ in card.held:
        found |= mask
    return found
