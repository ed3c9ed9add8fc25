"""Where to try next for a whole gang: zones, regions, types and clouds by what an hour of *work* will really cost.

Spot that flaps is paid for starts and for work that is taken back; capacity that stays is paid for one start. Both are
told in the same coin, so cheap spot, dear spot and on-demand stand in one order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Trip:
    """What a stay of the gang costs in time, in hours: its start, what an interruption takes back, the work to do."""

    start: float
    lost: float
    work: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """`cost` of an hour of work, in the offering's currency; None where a stay is not expected to bring any."""

    cost: float | None
    reason: str

    @property
    def order(self) -> tuple[bool, float]:
        """The cheapest hour of work first; what brings none last."""
        return self.cost is None, self.cost or 0.0


def estimate(hourly: Fraction, life_hours: float, trip: Trip, egress: Fraction = Fraction(0)) -> Estimate:
    """Of a stay at so much an hour that is expected to last so long (infinite: until the work is done).

    `egress` is paid once, to bring data and checkpoint there.
    """
    ends = life_hours >= trip.work + trip.start
    paid = min(life_hours, trip.work + trip.start)
    brings = paid - trip.start - (0.0 if ends else trip.lost)
    if brings <= 0:
        return Estimate(None, f"expected to last {life_hours:.1f} h, no longer than a start and what is lost")
    cost = (float(hourly) * paid + float(egress)) / brings
    stays = "until the work is done" if math.isinf(life_hours) else f"{life_hours:.1f} h"
    extra = f", egress {float(egress):.2f}" if egress else ""
    return Estimate(
        cost, f"{cost:.2f} for an hour of work: lasts {stays}, {brings:.1f} of {paid:.1f} h bring work{extra}"
    )
