"""What may be bought without asking, and what not at all. Bounds only ever stop a purchase, never machines at work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Final

from gpufleet.model.capacity import Offering
from gpufleet.procurement.choose import Purchase

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
UNKNOWN_RUNTIME: Final = timedelta(hours=24)
"""A job that declares no runtime is taken to keep what is bought for it for so long."""


@dataclass(frozen=True, slots=True)
class TeamGuard:
    """Of one team: whole units of the currency a day for its jobs (None: no bound of its own), and the regions its
    work must stay in (none: anywhere)."""

    daily: int | None = None
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guards:
    """Guard rails around buying. Amounts are whole units of the currency, None = no such bound; lists are patterns
    (`spot-*`), an empty one allows all."""

    daily: int | None = None
    teams: tuple[tuple[str, TeamGuard], ...] = ()
    max_instances: int | None = None
    offerings: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    approve_above: int | None = None
    """A purchase above this an hour waits for a person, ..."""
    approve_total_above: int | None = None
    """... and one that costs more than this over its job's declared runtime."""
    approval_for: timedelta = timedelta(hours=4)
    """An answer later than this comes too late: the purchase is planned anew."""
    ask_again_after: timedelta = DAY
    """A purchase that was turned down is not asked for again before, unless it has become cheaper."""
    dry_run: bool = False
    """Purchases are only written down."""
    billed_by: tuple[tuple[str, timedelta], ...] = ()
    """By cloud the time it bills in; by the second where nothing is said."""

    def team(self, name: str) -> TeamGuard:
        return dict(self.teams).get(name, TeamGuard())


@dataclass(frozen=True, slots=True)
class Spent:
    """What this day costs: all of it that is over, and its rest if every machine there now stays until midnight."""

    at: datetime
    today: Fraction = Fraction(0)
    by_team: Mapping[str, Fraction] = field(default_factory=dict)
    instances: int = 0

    @property
    def hours_left(self) -> Fraction:
        """Of the day, in UTC."""
        midnight = datetime.combine(self.at.date(), time(), self.at.tzinfo) + DAY
        return Fraction((midnight - self.at) / timedelta(microseconds=1)) / Fraction(HOUR / timedelta(microseconds=1))


def on_the_lists(offering: Offering, guards: Guards, team: str) -> bool:
    """Whether it may be bought for this team at all."""
    bound = guards.team(team).regions
    return (
        _listed(offering.name, guards.offerings)
        and _listed(offering.region, guards.regions)
        and _listed(offering.instance_type, guards.instance_types)
        and (not bound or offering.region in bound)
    )


def _listed(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def hourly_room(guards: Guards, spent: Spent, team: str) -> Fraction | None:
    """What a purchase for this team may cost an hour so that the budgets of the day hold until midnight, should nothing
    go back; None where no budget is set."""
    budgets = [
        (guards.daily, spent.today),
        (guards.team(team).daily, spent.by_team.get(team, Fraction(0))),
    ]
    rooms = [(Fraction(daily) - gone) / spent.hours_left for daily, gone in budgets if daily is not None]
    return min(rooms, default=None)


def instance_room(guards: Guards, spent: Spent) -> int | None:
    """How many more machines there may be."""
    return None if guards.max_instances is None else max(0, guards.max_instances - spent.instances)


def total_of(purchase: Purchase, runtime: timedelta | None) -> Fraction:
    """What the purchase costs until its job has ended."""
    lasts = runtime or UNKNOWN_RUNTIME
    return purchase.hourly * Fraction(int(lasts.total_seconds()), 3600)


def needs_a_person(purchase: Purchase, runtime: timedelta | None, guards: Guards) -> bool:
    """Whether a person must say yes first."""
    bounds = ((guards.approve_above, purchase.hourly), (guards.approve_total_above, total_of(purchase, runtime)))
    return any(bound is not None and price > bound for bound, price in bounds)
