"""What capacity is, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction


class CapacityType(StrEnum):
    OWNED = "owned"
    RESERVED = "reserved"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Offering:
    """Something a cloud sells: an instance type in a zone, as one capacity type. `price` is per instance-hour."""

    name: str
    cloud: str
    region: str
    zone: str
    instance_type: str
    capacity: CapacityType
    model: str
    gpus: int
    price: Fraction
    currency: str = "USD"
    fabric: str = ""
    available: bool = True
    position: tuple[str, ...] = ()
    """Topology path its nodes join at, where the cloud tells; else the zone alone."""

    @property
    def price_per_gpu_hour(self) -> Fraction:
        return self.price / self.gpus


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that was bought: `token` names the operation that asked for it, so a second ask finds the first."""

    name: str
    offering: str
    token: str
    zone: str
    capacity: CapacityType
    state: str
    """pending | ready | reclaiming | terminated."""
    launched_at: datetime


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """The cloud says it takes an instance back at `deadline`. `id` is the provider's, so hearing it twice is once."""

    id: str
    instance: str
    node: str
    at: datetime
    deadline: datetime
    kind: str = "spot"
