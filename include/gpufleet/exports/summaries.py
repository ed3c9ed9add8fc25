"""The statement's levels as CSV: by team, by project, by job, by day; each with a total row that is their sum."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.statement import MONEY, Statement, StatementRow, hours, money

LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "team": ("team",),
    "project": ("team", "project"),
    "job": ("team", "project", "job"),
    "day": ("day", "team"),
}
KEPT: Final = "(platform)"
"""What no team bears: idle GPUs and unused commitments."""


def summary_csv(found: Statement, level: str) -> str:
    """`level` is one of LEVELS. Amounts are plain decimals; hours have six decimals."""
    keys = LEVELS[level]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*keys, "gpu_hours", "over_quota_gpu_hours", *MONEY, "currency"])
    for key, rows in by(found, lambda row: tuple(str(getattr(row, k)) for k in keys)):
        writer.writerow([*map(tame, key), *_numbers(found, rows)])
    writer.writerow([KEPT, *[""] * (len(keys) - 1), *_kept(found)])
    writer.writerow(["total", *[""] * (len(keys) - 1), *_total(found)])
    return out.getvalue()


def by(
    found: Statement, key: Callable[[StatementRow], tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[StatementRow]]]:
    groups: dict[tuple[str, ...], list[StatementRow]] = defaultdict(list)
    for row in found.rows:
        groups[key(row)].append(row)
    yield from sorted(groups.items())


def _numbers(found: Statement, rows: list[StatementRow]) -> list[str]:
    held = [hours(sum(r.gpu_hours for r in rows)), hours(sum(r.over_quota_hours for r in rows))]
    return [*held, *(money(sum(getattr(r, name) for r in rows), found.decimals) for name in MONEY), found.currency]


def _kept(found: Statement) -> list[str]:
    costs = {"idle": found.idle_cost, "commitment": found.unused_cost, "total": found.idle_cost + found.unused_cost}
    return [
        hours(found.idle_hours),
        hours(0),
        *(money(costs.get(name, 0), found.decimals) for name in MONEY),
        found.currency,
    ]


def _total(found: Statement) -> list[str]:
    held = [sum(r.gpu_hours for r in found.rows) + found.idle_hours, sum(r.over_quota_hours for r in found.rows)]
    kept = {"idle": found.idle_cost, "commitment": found.unused_cost, "total": found.idle_cost + found.unused_cost}
    sums = (sum(getattr(r, name) for r in found.rows) + kept.get(name, 0) for name in MONEY)
    return [*map(hours, held), *(money(units, found.decimals) for units in sums), found.currency]
