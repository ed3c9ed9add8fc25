"""What teams are told they cost: minor units of the currency, rounded once, so every level adds up to the one above.

Team, project, job, day: `rows` are the lowest level; each other level is a plain sum of them, never rounded again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Final


class Standing(StrEnum):
    """How far a day or a month can be relied on; it only ever rises, except by a re-opening that is written down."""

    PROVISIONAL = "provisional"
    """Published the night after."""
    ESTIMATED = "estimated"
    """Two days later: late facts have come in."""
    RECONCILED = "reconciled"
    """Compared with the cloud's invoice."""
    CLOSED = "closed"
    """A month: nothing in it changes any more."""


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One job on one day; job "" for what no job caused. Money in minor units, GPU-hours in millionths."""

    team: str
    project: str
    job: str
    day: date
    guaranteed_hours: int = 0
    over_quota_hours: int = 0
    lost_hours: int = 0
    """Of these: work done since the last checkpoint that a lost attempt took with it, and its cost in `lost_cost`."""
    usage: int = 0
    idle: int = 0
    commitment: int = 0
    shared: int = 0
    credit: int = 0
    adjustment: int = 0
    lost_cost: int = 0
    """Part of usage and commitment, not beside them."""

    @property
    def gpu_hours(self) -> int:
        return self.guaranteed_hours + self.over_quota_hours

    @property
    def total(self) -> int:
        return self.usage + self.idle + self.commitment + self.shared + self.credit + self.adjustment


@dataclass(frozen=True, slots=True)
class TeamBudget:
    """A team's month: what it may cost, and where it is heading. Minor units; None where no budget is set."""

    team: str
    actual: int
    forecast: int
    """Expected cost of the whole month."""
    budget: int | None = None

    @property
    def is_over(self) -> bool:
        return self.budget is not None and self.actual > self.budget

    @property
    def will_be_over(self) -> bool:
        return self.budget is not None and self.forecast > self.budget


@dataclass(frozen=True, slots=True)
class Statement:
    """The days [begin, end) of one month of the fleet, by team, project, job and day (sorted so)."""

    currency: str
    decimals: int
    begin: date
    end: date
    standing: Standing
    revision: int
    """Of the ledger it was made from."""
    made_at: datetime
    """The latest instant it knows anything of; not the time of the run, so a second run gives the same bytes."""
    rows: tuple[StatementRow, ...]
    idle_hours: int
    """Of the platform: what no team bears."""
    idle_cost: int
    unused_hours: int
    unused_cost: int
    budgets: tuple[TeamBudget, ...] = ()

    @property
    def total(self) -> int:
        return sum(row.total for row in self.rows) + self.idle_cost + self.unused_cost


# ------------------------------------------------------------------ its numbers as text

MONEY: Final = ("usage", "idle", "commitment", "shared", "credit", "adjustment", "total")
"""The columns of money, in the order in which they are shown."""
HOUR_PLACES: Final = 6


def money(units: int, decimals: int) -> str:
    """Minor units as a plain decimal number, all decimals written out, below nothing with its sign."""
    sign, amount = ("-", -units) if units < 0 else ("", units)
    whole, rest = divmod(amount, 10**decimals)
    return f"{sign}{whole}.{rest:0{decimals}d}" if decimals else f"{sign}{whole}"


def hours(units: int) -> str:
    """GPU-hours with six decimals."""
    return money(units, HOUR_PLACES)


def grouped(rows: Iterable[StatementRow], key: Callable[[StatementRow], str]) -> list[tuple[str, list[StatementRow]]]:
    """By key, in order."""
    groups: dict[str, list[StatementRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())
