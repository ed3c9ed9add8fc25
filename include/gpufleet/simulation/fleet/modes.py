"""Which cards are whole and which are cut, and how long a start waits for a card to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpufleet.model.snapshot import PodPlace
from gpufleet.simulation.fleet.spec import Speed


def card_names(places: Sequence[PodPlace]) -> list[str]:
    """The cards on which slices are."""
    return [f"{p.node}/{s.gpu}" for p in places for s in p.slices]


@dataclass(slots=True)
class Modes:
    """MIG mode by card; all are whole at first. A card changes when its next user needs it otherwise."""

    speed: Speed
    _cut: set[str] = field(default_factory=set)

    def delay(self, places: Sequence[PodPlace], *, waits_for_others: bool) -> float:
        """Seconds until these places can be used: until who is stopped has gone, and cards have changed."""
        cut = set(card_names(places))
        whole = {f"{p.node}/{gpu}" for p in places for gpu in p.gpus}
        changes = bool(cut - self._cut or whole & self._cut)
        self._cut = (self._cut | cut) - whole
        return self.speed.evict * waits_for_others + self.speed.convert * changes
