"""The place an aged head of the line will get, and from when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpufleet.model.snapshot import PodPlace


@dataclass(frozen=True, slots=True)
class Reservation:
    """Places kept for a waiting job. `start` None: running jobs stand there of which nobody knows when they end."""

    job: str
    places: tuple[PodPlace, ...]
    start: datetime | None

    @property
    def holder(self) -> str:
        """Its name in the ledger; no job is called like that."""
        return f"~{self.job}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({p.node for p in self.places}))
