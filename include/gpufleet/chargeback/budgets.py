"""Where a team's month is heading: what it cost so far, and each day to come at what such weekdays cost lately.

Exact and without a clock: a day of the last 28 without any cost counts as a day that cost nothing; where less than 28
days are known (a new team), the mean is over those that are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Final

from gpufleet.chargeback.statement import half_up
from gpufleet.model.statement import TeamBudget

LOOKS_BACK: Final = 28
"""Days, so every weekday is there four times."""

DailyCost = Mapping[date, int]
"""Nano-units by day; a day without an entry cost nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """The month [begin, end); `today` is the first day of which nothing is known yet, `first_known` the first day
    from which on it is known what a team cost."""

    first_known: date
    begin: date
    today: date
    end: date


def forecast(cost: DailyCost, span: Span) -> Fraction:
    """Nano-units that the month will have cost.

    A weekday that was not seen in the last 28 days takes the mean of all days seen. Without any day seen, nothing more
    is expected.
    """
    spent = sum(amount for day, amount in cost.items() if span.begin <= day < min(span.today, span.end))
    seen = _days(max(span.first_known, span.today - timedelta(days=LOOKS_BACK)), span.today)
    coming = _days(max(span.today, span.begin), span.end)
    return Fraction(spent) + sum((_expected(cost, seen, day) for day in coming), Fraction(0))


def team_budget(team: str, cost: DailyCost, budget: Fraction | None, span: Span, decimals: int) -> TeamBudget:
    """In minor units, halves up; `budget` in whole units of the currency."""
    unit = 10 ** (9 - decimals)
    actual = sum(amount for day, amount in cost.items() if span.begin <= day < span.end)
    return TeamBudget(
        team,
        half_up(Fraction(actual, unit)),
        half_up(forecast(cost, span) / unit),
        None if budget is None else half_up(budget * 10**decimals),
    )


def crossed(found: TeamBudget, thresholds: Sequence[int]) -> tuple[int, ...]:
    """Thresholds (per cent of the budget) that the actual cost has reached; none without a budget."""
    if not found.budget:
        return ()
    return tuple(t for t in sorted(thresholds) if found.actual * 100 >= found.budget * t)


def _days(first: date, end: date) -> list[date]:
    return [first + timedelta(days=i) for i in range(max((end - first).days, 0))]


def _expected(cost: DailyCost, seen: Sequence[date], day: date) -> Fraction:
    alike = [d for d in seen if d.weekday() == day.weekday()] or seen
    return Fraction(sum(cost.get(d, 0) for d in alike), len(alike)) if alike else Fraction(0)
