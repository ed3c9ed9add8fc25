"""What finance decides about months: when they close, what is given back, what teams may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final

CLOSE_ON: Final = 10
SETTLE_DAYS: Final = 2
"""Days after which late facts of a day have come in: clouds lag by a day, meters by hours."""


ACCOUNTS: Final[Mapping[str, str]] = {
    "usage": "gpu-usage",
    "idle": "gpu-idle",
    "commitment": "gpu-commitments",
    "shared": "gpu-shared",
    "credit": "gpu-credits",
    "adjustment": "gpu-adjustments",
    "clearing": "gpu-clearing",
}


class CreditPolicy(StrEnum):
    """What teams get back of work that the platform itself lost."""

    NONE = "none"
    ALL = "all"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Finance:
    """One finance.yaml. Amounts in whole units of the currency of the rates, exact."""

    close_on: int = CLOSE_ON
    """Day of the next month, in the zone of the rates, from which on a month may be closed."""
    credit_share: Fraction = Fraction(0)
    """Of the cost of work lost by the platform: 0 to 1."""
    budgets: Mapping[str, Fraction] = field(default_factory=dict)
    """A month's budget by team."""
    alerts: tuple[int, ...] = (50, 80, 100)
    """Per cent of the budget at which a team is told, once a month each."""
    tolerance: Fraction = Fraction(1, 100)
    """By how much an invoice's line may differ from ours and still agree."""
    issuer: str = "gpufleet"
    """Who writes the statements, as FOCUS wants to know."""
    accounts: Mapping[str, str] = field(default_factory=lambda: dict(ACCOUNTS))
    """Accounts of the journal by kind of cost; `clearing` is the one that all of it is credited to."""
    cost_centres: Mapping[str, str] = field(default_factory=dict)
    """By team."""
    default_cost_centre: str = ""
    """Of teams that are not named; empty: once any is named, an unknown team is an error, so nothing is booked to nobody."""
    publish_to: str = "exports"
    """A folder (relative to the home), or an fsspec URL such as s3://bucket/path."""
    keep_days: int = 62
    """Nights that are kept; the last one of each month always is."""
