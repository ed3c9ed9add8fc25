"""GPU-hours that were paid for and brought nothing: lost with an attempt, or held while the GPUs did not work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.chargeback.losses import Losses, lost_part
from gpufleet.model.charge import Charge


@dataclass(frozen=True, slots=True)
class Waste:
    """A team's, in nano GPU-hours and nano-units, cut down. Work that was idle and then lost is in both."""

    team: str
    lost_hours: int = 0
    lost_cost: int = 0
    idle_hours: int = 0
    idle_cost: int = 0


def wasted(charges: Iterable[Charge], lost: Losses, idle: Losses) -> tuple[Waste, ...]:
    """By team, those that wasted anything. `idle`: stretches in which an attempt held GPUs that were not busy."""
    sums: dict[str, list[int]] = {}
    for charge in charges:
        parts = lost_part(charge, lost), lost_part(charge, idle)
        if not any(parts):
            continue
        found = sums.setdefault(charge.team, [0, 0, 0, 0])
        for i, part in enumerate(parts):
            found[2 * i] += int(charge.hours_nano * part)
            found[2 * i + 1] += int(charge.cost_nano * part)
    return tuple(Waste(team, *found) for team, found in sorted(sums.items()))
