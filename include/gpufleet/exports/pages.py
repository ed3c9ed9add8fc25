"""A statement for each team as one self-contained page, and a page that links them; made for paper too."""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, select_autoescape
from markupsafe import Markup

from gpufleet.exports.bars import COLOURS, burn_up, stacked
from gpufleet.model.statement import MONEY, Statement, StatementRow, TeamBudget, grouped, hours, money

KINDS: Final = MONEY[:-1]
JOBS_SHOWN: Final = 200
"""The dearest jobs; all of them stand in the CSV and the workbook."""


@cache
def _templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    return Environment(loader=FileSystemLoader(folder), autoescape=select_autoescape(default=True), trim_blocks=True)


def team_page(found: Statement, team: str) -> str:
    """HTML of one team's statement; numbers are those of the statement, to the minor unit."""
    rows = [row for row in found.rows if row.team == team]
    jobs = sorted(_lines(found, rows, "job"), key=lambda line: (-line["units"], line["name"]))
    budget = next((b for b in found.budgets if b.team == team), None)
    return (
        _templates()
        .get_template("statement.html")
        .render(
            found=found,
            team=team,
            total=_amounts(found, rows),
            projects=_lines(found, rows, "project"),
            jobs=jobs[:JOBS_SHOWN],
            jobs_left=max(0, len(jobs) - JOBS_SHOWN),
            days=_lines(found, rows, "day"),
            kinds=[kind for kind in KINDS if any(getattr(row, kind) for row in rows)],
            colours=COLOURS,
            by_day=Markup(_by_day(found, rows)),
            so_far=Markup(_so_far(found, rows, budget)),
            budget=None if budget is None else _budget(found, budget),
        )
    )


def index_page(found: Statement, files: Mapping[str, str], pages: Mapping[str, str]) -> str:
    """HTML that links every team's page and every file, by name and what it is."""
    teams = [
        {"name": team, "page": pages[team], **_amounts(found, rows)}
        for team, rows in grouped(found.rows, lambda row: row.team)
    ]
    kept = {
        "idle": shown(money(found.idle_cost, found.decimals)),
        "unused": shown(money(found.unused_cost, found.decimals)),
    }
    total = shown(money(found.total, found.decimals))
    return _templates().get_template("index.html").render(found=found, teams=teams, files=files, kept=kept, total=total)


def shown(number: str) -> str:
    """A plain decimal with its thousands set apart, to be looked at."""
    whole, point, part = number.partition(".")
    return f"{int(whole):,}{point}{part}" if not whole.startswith("-0") else number


def _amounts(found: Statement, rows: list[StatementRow]) -> dict[str, Any]:
    told = {name: shown(money(sum(getattr(r, name) for r in rows), found.decimals)) for name in MONEY}
    read = (("hours", sum(r.gpu_hours for r in rows)), ("over", sum(r.over_quota_hours for r in rows)))
    held = {name: shown(hours(units))[:-4] for name, units in read}  # two decimals are enough to look at
    return {**told, **held, "units": sum(r.total for r in rows)}


def _lines(found: Statement, rows: list[StatementRow], level: str) -> list[dict[str, Any]]:
    return [{"name": name, **_amounts(found, some)} for name, some in grouped(rows, lambda r: str(getattr(r, level)))]


def _by_day(found: Statement, rows: list[StatementRow]) -> str:
    days = grouped(rows, lambda row: row.day.isoformat())
    unit = 10**found.decimals
    parts = {kind: [sum(getattr(r, kind) for r in some) / unit for _, some in days] for kind in KINDS}
    return stacked([day for day, _ in days], parts, found.currency)


def _so_far(found: Statement, rows: list[StatementRow], budget: TeamBudget | None) -> str:
    if budget is None:
        return ""
    unit, total, values = 10**found.decimals, 0, []
    days = grouped(rows, lambda row: row.day.isoformat())
    for _, some in days:
        total += sum(r.total for r in some)
        values.append(total / unit)
    month_days = calendar.monthrange(found.begin.year, found.begin.month)[1]
    limit = None if budget.budget is None else budget.budget / unit
    return burn_up([day for day, _ in days], values, limit, budget.forecast / unit, month_days)


def _budget(found: Statement, budget: TeamBudget) -> dict[str, Any]:
    return {
        "actual": shown(money(budget.actual, found.decimals)),
        "forecast": shown(money(budget.forecast, found.decimals)),
        "budget": None if budget.budget is None else shown(money(budget.budget, found.decimals)),
        "is_over": budget.is_over,
        "will_be_over": budget.will_be_over,
    }
