"""The bill as it is printed: one rounding, dealt from the total down, so every column and row adds up (rules 25 to 28)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from math import lcm
from typing import Final

from gpufleet.chargeback.rates import Rates
from gpufleet.chargeback.sharing import Account, Charges
from gpufleet.chargeback.tally import Line

EXACT_DECIMALS: Final = 9
HOUR_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class BillLine:
    """One team and project, or with `project` None a whole team; whole numbers of the bill's smallest units."""

    team: str
    project: str | None
    guaranteed: int = 0
    over_quota: int = 0
    usage: int = 0
    idle: int = 0
    commitment: int = 0
    shared: int = 0

    @property
    def gpu_hours(self) -> int:
        return self.guaranteed + self.over_quota

    @property
    def total(self) -> int:
        return self.usage + self.idle + self.commitment + self.shared


@dataclass(frozen=True, slots=True)
class Bill:
    """What [start, end) cost, in units of 10^-decimals of the currency and 10^-hour_decimals of a GPU-hour."""

    currency: str
    start: date
    end: date
    decimals: int
    hour_decimals: int
    lines: tuple[BillLine, ...]
    idle_hours: int
    idle_cost: int
    unused_hours: int
    unused_cost: int
    total: int
    quarantined: tuple[tuple[str, str], ...] = ()
    """Id of the event, and why it was set aside or has no price; by id."""


HOURS: Final = ("guaranteed", "over_quota")
COSTS: Final = ("usage", "idle", "commitment", "shared")
Cells = dict[str, dict[Line, int]]
"""Dealt units by column and line."""


def state(
    account: Account, rates: Rates, start: date, end: date, *, exact: bool, quarantined: tuple[tuple[str, str], ...]
) -> Bill:
    """Round the account once and deal it out."""
    decimals = EXACT_DECIMALS if exact else rates.decimals
    hour_decimals = EXACT_DECIMALS if exact else HOUR_DECIMALS
    charged = {line: charges for line, charges in sorted(account.lines.items()) if not charges.is_nothing}
    cells: Cells = {}
    _, idle_hours = _deal_columns(cells, charged, HOURS, [account.idle_hours], 10**hour_decimals)
    total, kept = _deal_columns(cells, charged, COSTS, [account.idle_cost, account.unused_cost], 10**decimals)
    return Bill(
        rates.currency,
        start,
        end,
        decimals,
        hour_decimals,
        lines=tuple(BillLine(*line, *(cells[name][line] for name in (*HOURS, *COSTS))) for line in charged),
        idle_hours=idle_hours[0],
        idle_cost=kept[0],
        unused_hours=half_up(account.unused_hours * 10**hour_decimals),
        unused_cost=kept[1],
        total=total,
        quarantined=quarantined,
    )


def by_team(bill: Bill) -> Bill:
    """One line for each team, its printed lines added (rule 25)."""
    teams: dict[str, list[BillLine]] = {}
    for line in bill.lines:
        teams.setdefault(line.team, []).append(line)
    return replace(bill, lines=tuple(_added(team, lines) for team, lines in teams.items()))


def _added(team: str, lines: list[BillLine]) -> BillLine:
    return BillLine(team, None, *(sum(getattr(line, name) for line in lines) for name in (*HOURS, *COSTS)))


def _deal_columns(
    cells: Cells, charged: dict[Line, Charges], columns: Sequence[str], others: Sequence[Fraction], unit: int
) -> tuple[int, list[int]]:
    """Round the sum half up; deal it to the columns and to what stays with the platform; each column to its lines."""
    exact = [{line: getattr(charges, name) for line, charges in charged.items()} for name in columns]
    parts = [*(sum(column.values(), Fraction(0)) for column in exact), *others]
    total = half_up(sum(parts, Fraction(0)) * unit)
    dealt = deal(total, parts)
    for name, column, units in zip(columns, exact, dealt, strict=False):
        cells[name] = _deal_lines(units, column)
    return total, dealt[len(columns) :]


def _deal_lines(units: int, column: dict[Line, Fraction]) -> dict[Line, int]:
    """To the teams first, then each team's part to its projects."""
    teams: dict[str, dict[Line, Fraction]] = {}
    for line, amount in column.items():
        teams.setdefault(line[0], {})[line] = amount
    shares = deal(units, [sum(projects.values(), Fraction(0)) for projects in teams.values()])
    found: dict[Line, int] = {}
    for share, projects in zip(shares, teams.values(), strict=True):
        found.update(zip(projects, deal(share, list(projects.values())), strict=True))
    return found


def deal(units: int, weights: Sequence[Fraction]) -> list[int]:
    """Whole units by weight; those left go to the largest remainders, in the order of the list (rule 27)."""
    common = lcm(*(w.denominator for w in weights))
    return deal_whole(units, [w.numerator * (common // w.denominator) for w in weights])


def deal_whole(units: int, parts: Sequence[int]) -> list[int]:
    """The same by whole weights."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    shares, remainders = [units * p // whole for p in parts], [units * p % whole for p in parts]
    left = units - sum(shares)
    for i in sorted(range(len(parts)), key=lambda i: -remainders[i])[:left]:
        shares[i] += 1
    return shares


def half_up(amount: Fraction) -> int:
    """To the nearest whole number, halves up."""
    return (2 * amount.numerator + amount.denominator) // (2 * amount.denominator)
