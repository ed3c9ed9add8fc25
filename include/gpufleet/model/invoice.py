"""What a cloud billed: its invoice's lines, in one form for every provider."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class InvoiceKind(StrEnum):
    """What a line is for."""

    USAGE = "usage"
    """A resource was used, at what it effectively cost: covered by a commitment, its part of the commitment."""
    COMMITMENT = "commitment"
    """What a commitment promised and nobody used."""
    TAX = "tax"
    CREDIT = "credit"
    """Given back: promotions, refunds, discounts. Below 0 as a rule."""
    ROUNDING = "rounding"
    SUPPORT = "support"
    OTHER = "other"
    """A fee that no machine caused."""


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """One line. [start, end) in aware UTC; `resource` is empty where the line names none."""

    provider: str
    invoice: str
    """Empty while the provider has not issued it yet: the line may still change."""
    resource: str
    start: datetime
    end: datetime
    kind: InvoiceKind
    amount: Decimal
    currency: str
    note: str = ""
    """As the provider calls it."""
