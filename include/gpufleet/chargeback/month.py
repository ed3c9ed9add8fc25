"""A month to date from its charges: rounded once, dealt from the total down to team, project, job and day.

Every level is dealt what the level above got (rules 26 and 27), so all of them add up to the minor unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from gpufleet.chargeback.rates import PLATFORM
from gpufleet.chargeback.statement import HOUR_DECIMALS, deal_whole, half_up
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.statement import StatementRow

Cell = tuple[str, str, str, date]
"""Team, project, job and day."""

COLUMN: Final[Mapping[ChargeKind, str]] = {
    ChargeKind.USE: "usage",
    ChargeKind.COMMITTED_USE: "commitment",
    ChargeKind.UNUSED: "commitment",
    ChargeKind.IDLE_SHARE: "idle",
    ChargeKind.SHARED: "shared",
    ChargeKind.CREDIT: "credit",
    ChargeKind.ADJUSTMENT: "adjustment",
}
COSTS: Final = ("usage", "idle", "commitment", "shared", "credit", "adjustment")
HOURS: Final = ("guaranteed_hours", "over_quota_hours")
HELD: Final = (ChargeKind.USE, ChargeKind.COMMITTED_USE)


@dataclass(slots=True)
class Sums:
    """Nano-units of money and GPU-hours by cell and column, and what stays with the platform."""

    cells: dict[Cell, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    idle_hours: int = 0
    idle_cost: int = 0
    unused_hours: int = 0
    unused_cost: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Dealt:
    """Rows in minor units and millionths of a GPU-hour, sorted; beside them what no team bears."""

    rows: tuple[StatementRow, ...]
    idle_hours: int
    idle_cost: int
    unused_hours: int
    unused_cost: int


def summed(charges: Iterable[Charge]) -> Sums:
    """One pass, whatever their order; a payment for a commitment is no cost (rule 21)."""
    sums = Sums()
    for charge in charges:
        sums.total += charge.cost_nano
        if charge.kind is ChargeKind.UNUSED:
            sums.unused_hours += charge.hours_nano
        if charge.kind is ChargeKind.IDLE:
            sums.idle_hours += charge.hours_nano
            sums.idle_cost += charge.cost_nano
        elif is_moved_off(charge):
            sums.idle_cost += charge.cost_nano
        elif charge.kind is ChargeKind.UNUSED and charge.team == PLATFORM:
            sums.unused_cost += charge.cost_nano
        elif charge.kind in COLUMN:
            cell = sums.cells[charge.team, charge.project, charge.job, charge.day]
            cell[COLUMN[charge.kind]] += charge.cost_nano
            if charge.kind in HELD:
                cell[_mark(charge)] += charge.hours_nano
    return sums


def is_moved_off(charge: Charge) -> bool:
    """Idle cost that the platform no longer bears: the other side of what a line bears."""
    return charge.kind is ChargeKind.IDLE_SHARE and charge.team == PLATFORM and charge.note.startswith("borne by")


def _mark(charge: Charge) -> str:
    return "over_quota_hours" if charge.quota == "over-quota" else "guaranteed_hours"


def dealt(sums: Sums, decimals: int) -> Dealt:
    """Round the whole once and deal it down."""
    cells = dict(sorted(sums.cells.items()))
    found: dict[Cell, dict[str, int]] = {cell: {} for cell in cells}
    kept = _columns(cells, found, COSTS, [sums.idle_cost, sums.unused_cost], 9 - decimals)
    hours = _columns(cells, found, HOURS, [sums.idle_hours], 9 - HOUR_DECIMALS)
    unused_hours = half_up(Fraction(sums.unused_hours, 10 ** (9 - HOUR_DECIMALS)))
    rows = tuple(StatementRow(*cell, **_named(values)) for cell, values in found.items())
    return Dealt(rows, hours[0], kept[0], unused_hours, kept[1])


def _named(values: dict[str, int]) -> Any:
    return values


def _columns(
    cells: Mapping[Cell, Mapping[str, int]],
    found: Mapping[Cell, dict[str, int]],
    names: Sequence[str],
    others: Sequence[int],
    places: int,
) -> list[int]:
    """Fill the columns of `found`; answers with the units of the others. `places` are the decimals that are rounded off."""
    exact = {name: {cell: values.get(name, 0) for cell, values in cells.items()} for name in names}
    parts = [*(sum(column.values()) for column in exact.values()), *others]
    total = half_up(Fraction(sum(parts), 10**places))
    shares = deal_signed(total, parts, places)
    for name, units in zip(names, shares, strict=False):
        for cell, cell_units in _down(units, exact[name], places).items():
            found[cell][name] = cell_units
    return shares[len(names) :]


def _down(units: int, column: Mapping[Cell, int], places: int) -> dict[Cell, int]:
    """To teams, each team's to its projects, then jobs, then days."""
    found: dict[Cell, int] = {}

    def deal_level(units: int, cells: Sequence[Cell], level: int) -> None:
        if level == len(cells[0]):
            found[cells[0]] = units
            return
        groups = _grouped(cells, lambda cell: cell[level])
        weights = [sum(column[cell] for cell in group) for group in groups]
        for share, group in zip(deal_signed(units, weights, places), groups, strict=True):
            deal_level(share, group, level + 1)

    if column:
        deal_level(units, list(column), 0)
    return found


def _grouped(cells: Sequence[Cell], key: Callable[[Cell], object]) -> list[list[Cell]]:
    groups: dict[object, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[key(cell)].append(cell)
    return list(groups.values())


def deal_signed(units: int, nano: Sequence[int], places: int) -> list[int]:
    """Whole units by weight (rule 27); where some weights are negative, each gets its own rounded down and the units left
    go to the largest remainders."""
    if all(n >= 0 for n in nano):
        return deal_whole(units, nano)
    floors, remainders = [n // 10**places for n in nano], [n % 10**places for n in nano]
    left = units - sum(floors)
    for i in sorted(range(len(nano)), key=lambda i: -remainders[i])[:left]:
        floors[i] += 1
    return floors


def digest(charges: Iterable[Charge]) -> str:
    """SHA-256 over every charge in canonical form, in the order of day and id."""
    found = sha256()
    for c in sorted(charges, key=lambda c: (c.day, c.id)):
        words = (c.day, c.id, c.kind, c.begin.isoformat(), c.end.isoformat(), c.team, c.project, c.job, c.attempt, c.node,
                 c.gpu, c.profile, c.start, c.fraction, c.cost_nano, c.billed_nano, c.hours_nano, c.price_nano,
                 c.commitment, c.corrects, c.note)  # fmt: skip
        found.update("\x1f".join(map(str, words)).encode() + b"\n")
    return found.hexdigest()
