"""Who may take from whom (design.md section 7), compared where the two queues are siblings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.quota.tree import Tree
from gpufleet.quota.usage import Usage

FairShares = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Rights:
    """Amounts now, and the rules over them. `standing` leaves out what the pass itself has started.

    Without that, an owner could lose its oldest work because of what it was given a moment ago.
    """

    tree: Tree
    usage: Usage
    standing: Usage
    shares: FairShares
    _within: dict[tuple[tuple[str, ...], str], tuple[int, bool]] = field(default_factory=dict)

    def may_reclaim(self, taker: str, owner: str, model: str, grains: int) -> bool:
        """Whether work of `taker` that needs so much may make `owner` give back work of `model`.

        Within its deserved amount it takes from whoever is above theirs; beyond, up to its fair share, only from
        whoever is above their fair share. Never from one within its deserved amount.
        """
        mine, theirs = self.tree.below_common(taker, owner)
        if self.is_within_any(theirs, model):
            return False
        if self.usage.within(mine, model, grains):
            return True
        return self.within_share(mine, model, grains) and all(self.above_share(q, model) for q in theirs)

    def is_due(self, taker: str, model: str, grains: int) -> bool:
        """Whether the taker's own leaf allows it to reclaim so much from anybody: necessary, and quickly said."""
        return self.usage.within((taker,), model, grains) or self.within_share((taker,), model, grains)

    def is_within_any(self, queues: tuple[str, ...], model: str) -> bool:
        """Whether one of these holds no more of `model` than it deserves."""
        changes = self.standing.changes
        known = self._within.get((queues, model))
        if known is None or known[0] != changes:
            found = any(self.standing.within((q,), model) for q in queues)
            known = self._within[queues, model] = changes, found
        return known[1]

    def within_share(self, queues: tuple[str, ...], model: str, grains: int) -> bool:
        return all(self.usage.of(q).get(model, 0) + grains <= self.shares.get((q, model), 0) for q in queues)

    def above_share(self, queue: str, model: str) -> bool:
        return self.standing.of(queue).get(model, 0) > self.shares.get((queue, model), 0)
