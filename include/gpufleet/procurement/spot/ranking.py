"""Where to try next for a whole gang on spot: zones, regions, types and clouds by what an hour of work will really cost.

What just failed is not tried again blindly: a refusal for want of capacity shuts that offering for a few minutes, a refused
quota shuts its whole region for longer, because another zone of it has the same quota.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Final

from gpufleet.model.capacity import Offering


class Refusal(StrEnum):
    """Why a launch failed."""

    CAPACITY = "capacity"
    QUOTA = "quota"


SHUT: Final = {Refusal.CAPACITY: timedelta(minutes=3), Refusal.QUOTA: timedelta(hours=1)}
"""How long a refusal is believed: Karpenter lengthened its own from 45 s to 3 min after endless retries; a quota changes
only when a person has it changed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A launch that was refused."""

    offering: Offering
    at: datetime
    why: Refusal

    def shuts(self, other: Offering, now: datetime) -> bool:
        if now - self.at >= SHUT[self.why]:
            return False
        if self.why is Refusal.QUOTA:
            mine, theirs = self.offering, other
            return (mine.cloud, mine.region, mine.capacity) == (theirs.cloud, theirs.region, theirs.capacity)
        return self.offering.name == other.name


@dataclass(frozen=True, slots=True)
class Candidate:
    """So many instances of one offering, which hold the whole gang in one fabric domain."""

    offering: Offering
    instances: int
    life_hours: float
    """How long all of them are expected to stay (`survival.Outlook.life`)."""
    egress: Fraction = Fraction(0)
    """What it costs once to bring data and checkpoint there."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """`cost` is an estimate for an hour of work of the gang, in the offering's currency; None where it is not to be tried."""

    candidate: Candidate
    cost: float | None
    reason: str


def ranked(
    candidates: Iterable[Candidate],
    failures: Iterable[Failure],
    now: datetime,
    *,
    start_hours: float,
    lost_hours: float,
    work_hours: float,
) -> tuple[Ranked, ...]:
    """The cheapest hour of work first, then what is not to be tried and why.

    A visit pays for its whole life (or until the work is done); the start, and what an interruption takes back, bring nothing.
    """
    known = tuple(failures)
    found = [_judged(c, known, now, start_hours, lost_hours, work_hours) for c in candidates]
    return tuple(sorted(found, key=lambda r: (r.cost is None, r.cost or 0.0, r.candidate.offering.name)))


def _judged(
    candidate: Candidate, failures: tuple[Failure, ...], now: datetime, start: float, lost: float, work: float
) -> Ranked:
    offering = candidate.offering
    shut = next((f for f in failures if f.shuts(offering, now)), None)
    if not offering.available:
        return Ranked(candidate, None, "not sold at the moment")
    if shut:
        minutes = (now - shut.at) / timedelta(minutes=1)
        return Ranked(candidate, None, f"refused {minutes:.0f} min ago for want of {shut.why.value}")
    ends = candidate.life_hours >= work + start
    paid = min(candidate.life_hours, work + start)
    brings = paid - start - (0.0 if ends else lost)
    if brings <= 0:
        return Ranked(
            candidate, None, f"expected to last {candidate.life_hours:.1f} h, no longer than a start and what is lost"
        )
    price = float(offering.price * candidate.instances)
    cost = (price * paid + float(candidate.egress)) / brings
    reason = f"{price:.2f} an hour, lasts {candidate.life_hours:.1f} h, of which {brings:.1f} h bring work"
    return Ranked(candidate, cost, reason + (f", egress {float(candidate.egress):.2f}" if candidate.egress else ""))
