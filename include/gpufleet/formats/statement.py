"""A month's statement as JSON, and as a table for a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpufleet.model.statement import MONEY, Statement, StatementRow, grouped, hours, money


def statement_json(found: Statement) -> dict[str, Any]:
    """Teams, each with its projects; every number as a decimal string."""
    return {
        "currency": found.currency,
        "from": found.begin.isoformat(),
        "to": found.end.isoformat(),
        "standing": found.standing.value,
        "ledger_revision": found.revision,
        "teams": [_team(found, team, rows) for team, rows in grouped(found.rows, lambda row: row.team)],
        "idle": {"gpu_hours": hours(found.idle_hours), "cost": money(found.idle_cost, found.decimals)},
        "unused_commitment": {"gpu_hours": hours(found.unused_hours), "cost": money(found.unused_cost, found.decimals)},
        "total": money(found.total, found.decimals),
    }


def _team(found: Statement, team: str, rows: list[StatementRow]) -> dict[str, Any]:
    projects = [{"project": p, **_sums(found, some)} for p, some in grouped(rows, lambda row: row.project)]
    return {"team": team, **_sums(found, rows), "projects": projects}


def _sums(found: Statement, rows: Iterable[StatementRow]) -> dict[str, str]:
    some = list(rows)
    told = {"gpu_hours": hours(sum(r.gpu_hours for r in some))}
    told["over_quota_gpu_hours"] = hours(sum(r.over_quota_hours for r in some))
    return told | {name: money(sum(getattr(r, name) for r in some), found.decimals) for name in MONEY}


def statement_lines(found: Statement) -> list[str]:
    """A plain table: a line for each project, a line for each team, the total."""
    told = statement_json(found)
    head = ("team", "project", "GPU-hours", "over-quota", *MONEY)
    rows: list[tuple[str, ...]] = [head]
    for team in told["teams"]:
        rows += [(team["team"], p["project"], *_cells(p)) for p in team["projects"]]
        rows.append((team["team"], "(all)", *_cells(team)))
    blank = [""] * (len(MONEY) - 1)
    rows.append(("(idle)", "", told["idle"]["gpu_hours"], "", *blank, told["idle"]["cost"]))
    unused = told["unused_commitment"]
    rows.append(("(unused commitment)", "", unused["gpu_hours"], "", *blank, unused["cost"]))
    rows.append((f"total, {found.currency}", "", "", "", *blank, told["total"]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    title = f"{told['from']} to {told['to']}, {told['standing']}, ledger revision {told['ledger_revision']}"
    return [title, *(_line(row, widths) for row in rows)]


def _cells(sums: dict[str, str]) -> tuple[str, ...]:
    return (sums["gpu_hours"], sums["over_quota_gpu_hours"], *(sums[name] for name in MONEY))


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = (c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
    return "  ".join(cells).rstrip()
