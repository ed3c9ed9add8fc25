"""Publishes one finance day as provisional (a first simple version: whole GPUs, list prices; being deepened)."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from gpufleet.errors import Invalid
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger

COLUMNS = ("day", "team", "project", "gpu_hours", "over_quota_gpu_hours", "usage_cost", "idle_cost", "commitment_cost",
           "shared_cost", "total", "currency", "state")  # fmt: skip


def settle_day(fleet: Fleet, day: str) -> dict[str, Any]:
    """Meter, price, write and export the day; a second run replaces the provisional statement."""
    try:
        first = date.fromisoformat(day)
    except (ValueError, TypeError):
        raise Invalid(f"'{day}' is not a day; write it as 2026-03-10.") from None
    with fleet.database.write() as connection:
        rates = ledger.rates(connection)
        if not rates:
            raise Invalid(
                f"no rates are configured: write {fleet.home / 'rates.yaml'} and run gpufleet doctor --migrate."
            )
        zone = ZoneInfo(rates.get("timezone", "UTC"))
        start, end = (datetime.combine(d, time(), zone).astimezone(UTC) for d in (first, first + timedelta(days=1)))
        rows = ledger.usage_until(connection, datetime.max.replace(tzinfo=UTC))
        hours, cost = _use(rows, rates, start, end)
        lines = [_line(*key, hours[key], cost[key]) for key in sorted(hours)]
        total = sum((Fraction(x["total"]) for x in lines), Fraction(0))
        answer = {
            "day": day, "state": "provisional", "currency": rates["currency"], "lines": lines,
            "idle": {"gpu_hours": "0.000000", "cost": "0.00"}, "unused_commitment": {"gpu_hours": "0.000000", "cost": "0.00"},
            "total": f"{float(total):.2f}", "quarantined": [],
        }  # fmt: skip
        revision = ledger.ledger_revision(connection)
        ledger.put_day(
            connection, day,
            [{"team": x["team"], "project": x["project"], "gpu_hours": x["gpu_hours"], "total_nano": int(Fraction(x["total"]) * 10**9), "facts": x} for x in lines],
            state="provisional", revision=revision, currency=rates["currency"], total_nano=int(total * 10**9),
            published_at=fleet.clock.now(), answer=answer,
        )  # fmt: skip
    path = fleet.home / "exports" / f"statement-{day}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    with draft.open("w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**x, "day": day, "currency": rates["currency"], "state": "provisional"} for x in lines)
    os.replace(draft, path)
    return answer | {"csv": str(path), "revision": revision}


def _use(
    rows: Any, rates: dict[str, Any], start: datetime, end: datetime
) -> tuple[dict[Any, Fraction], dict[Any, Fraction]]:
    nodes: dict[str, dict[str, Any]] = {}
    open_: dict[Any, Any] = {}
    hours: dict[Any, Fraction] = defaultdict(Fraction)
    cost: dict[Any, Fraction] = defaultdict(Fraction)

    def close(held: Any, at: datetime) -> None:
        span = min(at, end) - max(held.at, start)
        if span > timedelta(0):
            amount = Fraction(held.facts.get("fraction", "1")) * Fraction(
                span // timedelta(microseconds=1), 3_600_000_000
            )
            hours[held.team, held.project] += amount
            cost[held.team, held.project] += amount * _price(nodes.get(held.node, {}), rates)

    for row in rows:
        if row.event == "node-up":
            nodes[row.node] = dict(row.facts) | {"node": row.node}
        key = (row.job, row.attempt, row.node, row.gpu, row.facts.get("start"))
        if row.event == "allocated":
            open_.setdefault(key, row)
        elif row.event == "released" and key in open_:
            close(open_.pop(key), row.at)
    for held in open_.values():
        close(held, end)
    return hours, cost


def _price(node: dict[str, Any], rates: dict[str, Any]) -> Fraction:
    for entry in rates.get("prices", []):
        if all(node.get(k) == v for k, v in (entry.get("match") or {}).items()):
            return Fraction(str(entry.get("per_gpu_hour", 0)))
    return Fraction(0)


def _line(team: str, project: str, hours: Fraction, cost: Fraction) -> dict[str, Any]:
    zero = {"idle_cost": "0.00", "commitment_cost": "0.00", "shared_cost": "0.00"}
    money = f"{round(cost * 100) / 100:.2f}"
    return {"team": team, "project": project, "gpu_hours": f"{float(hours):.6f}", "over_quota_gpu_hours": "0.000000", "usage_cost": money, **zero, "total": money}  # fmt: skip
