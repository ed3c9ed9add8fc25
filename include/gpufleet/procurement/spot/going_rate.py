"""What spot work costs here lately: what a plain gang that takes the cheapest zone and stays would have met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from gpufleet.procurement.spot.terms import IDLE, Terms

FADE: Final = math.exp(-1 / 250)
"""What a tick's evidence keeps from one tick to the next: a memory of 42 hours."""
PRIOR_PRICE: Final = 0.2
"""Before anything was seen: a part of the on-demand price, with the weight of one tick ..."""
PRIOR_TICKS: Final = 20
"""... and as many units of spare time used, in as many ticks of work."""
LEAST_NEED, MOST_NEED = 0.02, 2.1
"""A long outage must not make it look as if spot were never to come back."""


class GoingRate:
    """Fed one row after the other; older rows fade. Prices are parts of the on-demand price."""

    def __init__(self, terms: Terms, prices: Sequence[float]) -> None:
        self.terms, self.prices = terms, prices
        self._place, self._ticks = IDLE, 0
        self._price = self._priced = self._used = self._done = 0.0

    def see(self, up: Iterable[int]) -> None:
        """The zones of the next row that hold the gang."""
        there = tuple(up)
        used, done = self._back() if self._place not in there else (0, 0)
        cheapest = min(there, key=lambda zone: (self.prices[zone], zone), default=IDLE)
        if self._place == IDLE:
            self._place, self._ticks = cheapest, 0
        gained = 0
        if self._place != IDLE:
            self._ticks += 1
            gained = self.terms.progress(self._ticks) - self.terms.progress(self._ticks - 1)
        self._used = self._used * FADE + used + self.terms.tick - gained
        self._done = self._done * FADE + done + gained
        self._price = self._price * FADE + (self.prices[cheapest] if there else 0.0)
        self._priced = self._priced * FADE + bool(there)

    def _back(self) -> tuple[int, int]:
        """The plain gang lost its zone: spare time used and work (negative) done by that."""
        lost = self.terms.lost(self._ticks) if self._place != IDLE else 0
        self._place = IDLE
        return lost, -lost

    @property
    def price(self) -> float:
        """Of the cheapest zone there was, on average."""
        return (self._price + PRIOR_PRICE) / (self._priced + 1)

    @property
    def need(self) -> float:
        """Units of spare time that a tick of work used."""
        prior = PRIOR_TICKS * self.terms.tick
        found = self.terms.tick * (self._used + PRIOR_TICKS) / max(self._done + prior, 1.0)
        return min(MOST_NEED, max(LEAST_NEED, found))
