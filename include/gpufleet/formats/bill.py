"""A bill as the JSON of docs/formats.md section 2, and as a table for a person."""

from __future__ import annotations

from typing import Any

from gpufleet.chargeback import Bill, BillLine
from gpufleet.model.statement import money


def to_json(bill: Bill) -> dict[str, Any]:
    """The answer of `gpufleet bill`; money and GPU-hours are decimal strings."""
    return {
        "currency": bill.currency,
        "from": bill.start.isoformat(),
        "to": bill.end.isoformat(),
        "lines": [_line(bill, line) for line in bill.lines],
        "idle": {
            "gpu_hours": money(bill.idle_hours, bill.hour_decimals),
            "cost": money(bill.idle_cost, bill.decimals),
        },
        "unused_commitment": {
            "gpu_hours": money(bill.unused_hours, bill.hour_decimals),
            "cost": money(bill.unused_cost, bill.decimals),
        },
        "total": money(bill.total, bill.decimals),
        "quarantined": [{"id": id, "why": why} for id, why in bill.quarantined],
    }


def _line(bill: Bill, line: BillLine) -> dict[str, Any]:
    return {
        "team": line.team,
        "project": line.project,
        "gpu_hours": money(line.gpu_hours, bill.hour_decimals),
        "over_quota_gpu_hours": money(line.over_quota, bill.hour_decimals),
        "usage_cost": money(line.usage, bill.decimals),
        "idle_cost": money(line.idle, bill.decimals),
        "commitment_cost": money(line.commitment, bill.decimals),
        "shared_cost": money(line.shared, bill.decimals),
        "total": money(line.total, bill.decimals),
    }


HEAD = ("team", "project", "GPU-hours", "over-quota", "usage", "idle", "commitment", "shared", "total")
LEFT = 2
"""The first columns are words, the others numbers."""


def bill_lines(bill: Bill) -> list[str]:
    """A plain table, then what was set aside and why."""
    answer = to_json(bill)
    rows = [HEAD, *(tuple(str(v) if v is not None else "" for v in line.values()) for line in answer["lines"])]
    idle, unused = answer["idle"], answer["unused_commitment"]
    rows.append(("(idle)", "", idle["gpu_hours"], "", "", idle["cost"], "", "", idle["cost"]))
    rows.append(("(unused commitment)", "", unused["gpu_hours"], "", "", "", unused["cost"], "", unused["cost"]))
    rows.append((f"total, {bill.currency}", *[""] * 7, answer["total"]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = [
        "  ".join(c.ljust(w) if i < LEFT else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    title = f"{answer['from']} to {answer['to']}"
    aside = [f"set aside: {q['id']}: {q['why']}" for q in answer["quarantined"]]
    return [title, *(line.rstrip() for line in lines), *aside]
