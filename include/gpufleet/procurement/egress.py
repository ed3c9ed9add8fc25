"""What it costs to bring a job's data to where a machine is: clouds sell the way out of a region by the gigabyte."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpufleet.model.capacity import Offering

GB: Final = 10**9
"""As clouds bill it."""


@dataclass(frozen=True, slots=True)
class Egress:
    """Where checkpoints lie, and what a GB costs from there. Inside the region nothing."""

    cloud: str
    region: str
    other_region: Fraction
    """To another region of the same cloud."""
    other_cloud: Fraction

    def cost(self, offering: Offering, size: int) -> Fraction:
        """Of so many bytes, once."""
        if offering.cloud != self.cloud:
            return self.other_cloud * size / GB
        return Fraction(0) if offering.region == self.region else self.other_region * size / GB
