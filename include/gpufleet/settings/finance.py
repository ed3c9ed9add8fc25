"""finance.yaml: how the night's files are booked, where they go, and when a month is closed. Without it, the defaults."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from gpufleet.settings.reading import load_file
from gpufleet.settings.worlds import Strict

FILE: Final = "finance.yaml"
Account = Annotated[str, Field(min_length=1, max_length=40)]


class Accounts(Strict):
    """Accounts of the ledger by kind of cost, and the one that all of it is credited to."""

    usage: Account = "gpu-usage"
    idle: Account = "gpu-idle"
    commitment: Account = "gpu-commitments"
    shared: Account = "gpu-shared"
    credit: Account = "gpu-credits"
    adjustment: Account = "gpu-adjustments"
    clearing: Account = "gpu-clearing"


class Finance(Strict):
    issuer: str = "gpufleet"
    """Who writes the statements, as FOCUS wants to know."""
    accounts: Accounts = Accounts()
    cost_centres: dict[str, Account] = Field(default={})
    default_cost_centre: str = ""
    """Of teams that are not named; empty: an unknown team is an error, so nothing is booked to nobody."""
    budgets: dict[str, Decimal] = Field(default={})
    """What a team may cost in a month."""
    publish_to: str = "exports"
    """A folder (relative to the home), or an fsspec URL such as s3://bucket/path."""
    keep_days: int = Field(default=62, ge=2)
    """Nights that are kept; the last one of each month always is."""
    close_on: int = Field(default=10, ge=1, le=28)
    """The day of the next month on which a month is closed by itself, once it is settled."""


def load_finance(home: Path) -> Finance:
    """Raises Invalid that names file and key."""
    path = home / FILE
    return load_file(path, Finance) if path.is_file() else Finance()
