"""GPU-hours that were paid for and brought nothing: lost with an attempt, held and not busy, or asked for beyond the need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.chargeback.losses import PAID, Losses, lost_part
from gpufleet.model.charge import Charge


@dataclass(frozen=True, slots=True)
class Waste:
    """A team's, in nano GPU-hours and nano-units, cut down. An hour may be in several of them."""

    team: str
    lost_hours: int = 0
    lost_cost: int = 0
    idle_hours: int = 0
    idle_cost: int = 0
    over_hours: int = 0
    over_cost: int = 0


def wasted(
    charges: Iterable[Charge], lost: Losses, idle: Losses, over_asked: Mapping[str, Fraction]
) -> tuple[Waste, ...]:
    """By team, those that wasted anything.

    `idle`: stretches in which an attempt held GPUs that were not busy; `over_asked`: by job, which part of what it held
    its memory could have done without.
    """
    sums: dict[str, list[int]] = {}
    for charge in charges:
        over = over_asked.get(charge.job, Fraction(0)) if charge.kind in PAID and not charge.corrects else Fraction(0)
        parts = lost_part(charge, lost), lost_part(charge, idle), over
        if not any(parts):
            continue
        found = sums.setdefault(charge.team, [0] * 2 * len(parts))
        for i, part in enumerate(parts):
            found[2 * i] += int(charge.hours_nano * part)
            found[2 * i + 1] += int(charge.cost_nano * part)
    return tuple(Waste(team, *found) for team, found in sorted(sums.items()))
