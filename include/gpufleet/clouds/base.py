"""What every kind of cloud can do. Each purchase may be repeated: the same token again buys nothing new.

How clouds differ is data: an offering, its fabric, how machines are kept close, what kind of notice was heard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Protocol

from gpufleet.errors import Permanent, Refused, Temporary
from gpufleet.model.capacity import Instance, InterruptionNotice, Offering
from gpufleet.procurement.prices import Quote

# The cloud had none of it: `gpufleet.errors.NoCapacity`. These are the other reasons.


class QuotaReached(Permanent):
    """The account may not have more. Other zones of the region draw on the same quota: they are no way out."""


class Throttled(Temporary):
    """Too many requests of ours; the same one is worth another try later."""


class NotAnswered(Temporary):
    """No answer, or a broken one: what was asked may have been done."""


class NoAccess(Temporary):
    """Our credentials are not taken, or lack a right. Somebody must mend that; until then nothing can be seen."""


class BadRequest(Permanent):
    """The cloud cannot accept it as it is configured here."""


class DryRun(Refused):
    """It would have been done; this cloud is configured to only say so."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A promise of hardware: `count` machines like those of an offering, from `starts` until `ends` (None: open)."""

    id: str
    offering: str
    count: int
    used: int
    state: str
    """pending | active | ended, by our words for the cloud's."""
    starts: datetime | None = None
    ends: datetime | None = None
    token: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Hardware for a fixed time at a fixed price, paid when it is bought and never given back."""

    id: str
    offering: str
    count: int
    starts: datetime
    ends: datetime
    price: Fraction
    currency: str = "USD"


class Cloud(Protocol):
    """A seller of machines.

    Every method raises Throttled, NotAnswered or NoAccess when the cloud cannot be asked now, BadRequest where the
    configuration is wrong.
    """

    name: str

    def offerings(self) -> tuple[Offering, ...]:
        """What is sold now, at prices that are sane and fresh; what has no such price is not `available`."""
        ...

    def prices(self) -> tuple[Quote, ...]:
        """The prices behind the offerings as they were found, the doubtful ones too."""
        ...

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        """Buy `count` machines of an offering, all or none, in one zone and one fabric domain.

        The same token again returns the same machines, whatever became of them; those the cloud has forgotten are left
        out. They join the cluster by themselves. Raises NoCapacity when the cloud has none and QuotaReached when we may
        have no more (nothing was bought: what had come was given back, or the message names it), UnderWay while it is
        at it, NotFound for an offering it does not sell, Refused for a token that bought something else.
        """
        ...

    def instances(self) -> tuple[Instance, ...]:
        """Every machine of our fleet, by tag. One that ended is told of as terminated for a while, or not any more."""
        ...

    def terminate(self, name: str) -> None:
        """Give a machine back; one that is gone is done."""
        ...

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """What the cloud announced of our machines, until it is told by `heard`; one may come more than once."""
        ...

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        """They are written down and need not be told again."""
        ...

    def positions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Where running machines stand in the network, broad to narrow from the zone on, of those that the cloud tells."""
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """Every capacity reservation of our fleet, by tag."""
        ...

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        """Reserve capacity that is paid until it is cancelled, or buy that block. The same token is the same one.

        Raises NoCapacity, QuotaReached, and Refused where this cloud, or this offering, knows no such thing.
        """
        ...

    def cancel(self, reservation: str) -> None:
        """End a reservation; one that is over is done. Raises Refused for a block."""
        ...

    def blocks(self, offering: str, count: int, hours: int) -> tuple[Block, ...]:
        """Blocks on sale for so many machines and hours, the cheapest first; none where there is no such thing."""
        ...
