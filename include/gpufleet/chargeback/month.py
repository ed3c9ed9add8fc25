"""The statement of a month to date: charges folded, rounded once, dealt from the total down.

Charges stream through: what stays in memory is one small cell for each team, project, job and day. The exact sums are
integers, so the order of the charges says nothing. Then total -> columns -> teams -> projects -> jobs -> days, each
level dealt from the one above, so all of them add up in every currency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from gpufleet.chargeback.currencies import MINOR_UNITS
from gpufleet.chargeback.losses import Losses, lost_part
from gpufleet.chargeback.rates import PLATFORM
from gpufleet.chargeback.rounding import apportion, nearest
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.statement import Standing, Statement, StatementRow, TeamBudget

Key = tuple[str, str, str, date]
"""Team, project, job ("" for what no job caused), day."""

HOURS: Final = ("guaranteed_hours", "over_quota_hours")
COSTS: Final = ("usage", "idle", "commitment", "shared", "credit", "adjustment")
NANO_DIGITS: Final = 9
HOUR_UNIT: Final = 1000
"""Nano-hours in the millionth of an hour that a statement shows."""

COLUMN: Final = {
    ChargeKind.USE: "usage",
    ChargeKind.COMMITTED_USE: "commitment",
    ChargeKind.IDLE: "idle",
    ChargeKind.IDLE_SHARE: "idle",
    ChargeKind.UNUSED: "commitment",
    ChargeKind.SHARED: "shared",
    ChargeKind.CREDIT: "credit",
    ChargeKind.ADJUSTMENT: "adjustment",
}
"""Where the cost of a charge stands. A purchase stands nowhere: its cost is spread over the commitment's term."""

KEPT: Final = {ChargeKind.IDLE: "idle", ChargeKind.IDLE_SHARE: "idle", ChargeKind.UNUSED: "unused"}
"""Kinds that stay with the platform where no team bears them."""

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Fold:
    """Exact sums of charges, in nano-units, by column and cell."""

    cells: dict[str, dict[Key, int]] = field(default_factory=lambda: {name: {} for name in (*HOURS, *COSTS)})
    lost_hours: dict[Key, int] = field(default_factory=dict)
    lost_cost: dict[Key, int] = field(default_factory=dict)
    kept_cost: dict[str, int] = field(default_factory=lambda: {"idle": 0, "unused": 0})
    kept_hours: dict[str, int] = field(default_factory=lambda: {"idle": 0, "unused": 0})
    latest: datetime = EARLIEST

    def add(self, charge: Charge, losses: Losses) -> None:
        """One charge more, where its cost and its hours stand."""
        if charge.kind is ChargeKind.PURCHASE:
            return
        self.latest = max(self.latest, charge.end)
        kept = KEPT.get(charge.kind)
        if kept is not None:
            self.kept_hours[kept] += charge.hours_nano
        if kept is not None and charge.team == PLATFORM:
            self.kept_cost[kept] += charge.cost_nano
            return
        key = (charge.team, charge.project, charge.job, charge.day)
        _add(self.cells[COLUMN[charge.kind]], key, charge.cost_nano)
        if kept is None:
            column = "over_quota_hours" if charge.quota == "over-quota" else "guaranteed_hours"
            _add(self.cells[column], key, charge.hours_nano)
            self._lose(key, charge, losses)

    def _lose(self, key: Key, charge: Charge, losses: Losses) -> None:
        if part := lost_part(charge, losses):
            _add(self.lost_hours, key, int(charge.hours_nano * part))
            _add(self.lost_cost, key, int(charge.cost_nano * part))

    @property
    def keys(self) -> list[Key]:
        """Cells in which any column is not exactly 0, sorted."""
        return sorted({key for column in self.cells.values() for key, amount in column.items() if amount})


def fold(charges: Iterable[Charge], losses: Losses | None = None) -> Fold:
    """Sum the charges up, each read once."""
    found = Fold()
    for charge in charges:
        found.add(charge, losses or {})
    return found


@dataclass(frozen=True, slots=True)
class MonthToDate:
    """What a statement says of itself beside its numbers."""

    currency: str
    begin: date
    end: date
    standing: Standing
    revision: int
    made_at: datetime | None = None
    """The latest instant anything is known of; None: the latest end of a charge."""


def month_statement(about: MonthToDate, exact: Fold, budgets: tuple[TeamBudget, ...] = ()) -> Statement:
    """Round the sums once, to the minor units of the currency. Raises Invalid for a currency without any."""
    if about.currency not in MINOR_UNITS:
        raise Invalid(f"'{about.currency}' is not a currency of ISO 4217: name one such as EUR in the rates.")
    decimals = MINOR_UNITS[about.currency]
    unit = 10 ** (NANO_DIGITS - decimals)
    costs, kept = _dealt(exact, COSTS, (exact.kept_cost["idle"], exact.kept_cost["unused"]), unit)
    hours, idle = _dealt(exact, HOURS, (exact.kept_hours["idle"],), HOUR_UNIT)
    return Statement(
        about.currency,
        decimals,
        about.begin,
        about.end,
        about.standing,
        about.revision,
        about.made_at or exact.latest,
        rows=tuple(_row(key, costs | hours, exact, unit) for key in exact.keys),
        idle_hours=idle[0],
        idle_cost=kept[0],
        unused_hours=nearest(exact.kept_hours["unused"], HOUR_UNIT),
        unused_cost=kept[1],
        budgets=budgets,
    )


def _add(cells: dict[Key, int], key: Key, amount: int) -> None:
    cells[key] = cells.get(key, 0) + amount


def _row(key: Key, cells: Mapping[str, Mapping[Key, int]], exact: Fold, unit: int) -> StatementRow:
    """What was lost is cut down: it is part of what stands beside it and may not be above it."""
    team, project, job, day = key
    values = {name: column.get(key, 0) for name, column in cells.items()}
    lost_hours = min(exact.lost_hours.get(key, 0) // HOUR_UNIT, sum(values[name] for name in HOURS))
    lost_cost = min(exact.lost_cost.get(key, 0) // unit, values["usage"] + values["commitment"])
    values |= {"lost_hours": max(lost_hours, 0), "lost_cost": max(lost_cost, 0)}
    return StatementRow(team, project, job, day, **values)


def _dealt(
    exact: Fold, columns: Sequence[str], kept: Sequence[int], unit: int
) -> tuple[dict[str, dict[Key, int]], list[int]]:
    """The rounded total to the columns and to what the platform keeps; each column to its cells."""
    parts = [*(sum(exact.cells[name].values()) for name in columns), *kept]
    dealt = apportion(nearest(sum(parts), unit), parts, unit)
    cells = {
        name: _down(units, dict(sorted(exact.cells[name].items())), unit, 1)
        for name, units in zip(columns, dealt, strict=False)
    }
    return cells, dealt[len(columns) :]


def _down(units: int, cells: dict[Key, int], unit: int, depth: int) -> dict[Key, int]:
    """Deal to the groups that agree in the first `depth` parts of their keys, and inside each one level further."""
    groups: dict[tuple[object, ...], dict[Key, int]] = {}
    for key, amount in cells.items():
        groups.setdefault(key[:depth], {})[key] = amount
    shares = apportion(units, [sum(group.values()) for group in groups.values()], unit)
    found: dict[Key, int] = {}
    for share, group in zip(shares, groups.values(), strict=True):
        found.update(
            dict.fromkeys(group, share) if depth == len(next(iter(group))) else _down(share, group, unit, depth + 1)
        )
    return found
