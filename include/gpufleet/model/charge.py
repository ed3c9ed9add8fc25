"""What a day cost, one line for each reason: the charges that statements, exports and reconciliation are made of.

Every amount is a whole number: nano GPU-hours (10^-9 of a GPU for an hour) and nano-units of the bill's currency
(10^-9), so sums are exact in any order. The charges of a day sum to the day's cost, and their hours to its GPU-hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum


class ChargeKind(StrEnum):
    """Why there is a charge."""

    USE = "use"
    """An attempt held a GPU, slice or share, at the list price."""
    COMMITTED_USE = "committed-use"
    """The same, covered by a commitment, at its amortised rate."""
    IDLE = "idle"
    """A node's GPUs that nobody held, borne by the platform; `commitment` names what covers them."""
    IDLE_SHARE = "idle-share"
    """Idle cost moved to who bears it by the rates' policy, and off the platform (negative): sums to 0, no hours."""
    UNUSED = "unused"
    """What a commitment promised and nobody used, borne by its owner."""
    PURCHASE = "purchase"
    """A payment for a commitment: billed, never effective cost (that is spread over its term)."""
    SHARED = "shared"
    """A cost that no GPU caused: storage, egress, the platform."""
    CREDIT = "credit"
    """Given back: the cost of work that the platform itself lost. Never above 0."""
    ADJUSTMENT = "adjustment"
    """What a cloud's invoice says beyond what we know, taken over so that the books agree with it."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One line. Times are aware UTC, [begin, end), inside the finance day `day`; empty text and None mean "not said"."""

    id: str
    """The same for the same facts, whenever it is made; unique in its day."""
    day: date
    kind: ChargeKind
    begin: datetime
    end: datetime
    team: str
    project: str
    cost_nano: int
    """Effective cost: what is charged to the team."""
    billed_nano: int = 0
    """What is payable for it now: 0 for use that a commitment covers, the payment itself for a purchase."""
    hours_nano: int = 0
    """GPU-hours held, idle or unused; a MIG slice or a share by its part of the GPU."""
    list_price_nano: int | None = None
    """Of a GPU-hour at that time, also for what a commitment covers; None where no price fits."""
    price_nano: int | None = None
    """What a GPU-hour of this charge was priced at: list price with the over-quota factor, or the amortised rate."""
    job: str = ""
    attempt: int | None = None
    node: str = ""
    gpu: int | None = None
    profile: str = ""
    """The MIG profile, or empty for a whole GPU or a share."""
    start: int | None = None
    """The slice's first memory slice."""
    fraction: str = ""
    """The share, as an exact decimal or fraction in text."""
    model: str = ""
    capacity: str = ""
    """on-demand, spot, reserved, owned: as the node said."""
    provider: str = ""
    region: str = ""
    quota: str = ""
    """guaranteed or over-quota."""
    commitment: str = ""
    estimated: bool = False
    """Its end was not observed: it ends with the last proof of life, or has not ended yet."""
    corrects: str = ""
    """For a correction after the month was closed: the id of the month it belongs to, e.g. 2026-03."""
    note: str = ""
    """For people: the shared cost's name, what a credit is for."""
