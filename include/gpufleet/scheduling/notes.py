"""What a pass remembers beside its decisions: so that it need not look twice, and how often it tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpufleet.scheduling.roster import Sort


@dataclass(slots=True)
class Notes:
    """Kept by the session, written by the actions."""

    hopeless: set[tuple[object, ...]] = field(default_factory=set)
    """(action, freed, shape, ...) that failed: equal requests are not tried again."""
    units: dict[str, Any] = field(default_factory=dict)
    """By running job, what `victims` worked out for the places it holds."""
    sort_sets: dict[frozenset[Sort], int] = field(default_factory=dict)
    """Numbers for sets of sorts, under which prices of nodes are remembered."""
    net_gain_tries: int = 0
    """Net gain tries a few gangs in a pass, no more."""
