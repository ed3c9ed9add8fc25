"""Days that nobody published are filled in through Airflow's own backfill: every day once, in its order, with its own use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.airflow.conftest import Living
from tests.sandboxes import eventually

from gpufleet.store import ledger

DAG = "chargeback_nightly"
FIRST = date(2025, 11, 1)
RATES: dict[str, Any] = {
    "version": 1,
    "currency": "USD",
    "timezone": "UTC",
    "prices": [{"match": {"node": "bf1"}, "per_gpu_hour": "2.00"}],
}


@pytest.fixture
def november(living: Living) -> Iterator[Living]:
    """Long before all that other tests look at: a node of one GPU, up since the first of the month.

    Each day a job runs on it for as many half hours as the day's number says.
    """
    shape = {"model": "H100-80", "gpus": 1, "capacity": "on-demand"}
    begin = datetime(2025, 11, 1, tzinfo=UTC)
    events: list[dict[str, Any]] = [{"id": "bf1-up", "at": begin, "event": "node-up", "node": "bf1", "facts": shape}]
    for n in range(40):
        at = begin + timedelta(days=n, hours=1)
        held = {"job": f"bf-job-{n}", "attempt": 1, "gpu": 0, "node": "bf1"}
        owner = {"team": "vision", "project": "digits"}
        events.append({"id": f"bf-a{n}", "at": at, "event": "allocated", **held, **owner, "facts": {}})
        end = at + timedelta(minutes=30 * (n + 1))
        events.append({"id": f"bf-r{n}", "at": end, "event": "released", **held, "facts": {}})
    events.append(
        {"id": "bf1-down", "at": begin + timedelta(days=45), "event": "node-down", "node": "bf1", "facts": {}}
    )
    with living.fleet.database.write() as connection:
        before = ledger.rates(connection)
        ledger.add_usages(connection, events, datetime.now(UTC))
        ledger.put_rates(connection, RATES, datetime.now(UTC))
    yield living
    with living.fleet.database.write() as connection:
        ledger.put_rates(connection, before, datetime.now(UTC))


@pytest.mark.airflow
@pytest.mark.timeout(300)
def test_two_days_are_filled_in(november: Living) -> None:
    fill_in(november, 2)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_thirty_days_are_filled_in_and_the_month_among_them_closes(november: Living) -> None:
    fill_in(november, 30)
    assert latest(november, "2025-11")["standing"] == "closed"


def fill_in(living: Living, count: int) -> tuple[list[date], dict[str, str]]:
    """The first days of November; answers with them and their runs."""
    days = [FIRST + timedelta(days=n) for n in range(count)]
    runs = backfill(living, days)
    assert sorted(runs) == [f"{day:%Y-%m-%d}" for day in days], "each day has one run"
    told = {day: living.people["admin"].xcom(DAG, run, "settle") for day, run in runs.items()}
    for n, day in enumerate(days, 1):
        assert Decimal(told[f"{day:%Y-%m-%d}"]["lines"][0]["gpu_hours"]) == Decimal(n) / 2, day
    month = [t for day, t in told.items() if day.startswith("2025-11")]
    assert Decimal(latest(living, "2025-11")["total"]) == sum(Decimal(t["total"]) for t in month)
    return days, runs


def backfill(living: Living, days: list[date], reprocess: str = "none") -> dict[str, str]:
    """The runs by their day, when all of them succeeded."""
    admin = living.people["admin"]
    asked = {
        "dag_id": DAG,
        # by the days themselves, at the DAG's hour, not by when their runs would have been due
        "from_date": f"{days[0]}T00:00:00Z",
        "to_date": f"{days[-1]}T02:00:00Z",
        "max_active_runs": 1,
        "reprocess_behavior": reprocess,
    }
    made = admin._call("POST", "/api/v2/backfills", json=asked)["id"]
    eventually(
        lambda: admin._call("GET", f"/api/v2/backfills/{made}")["completed_at"] is not None, within=60 * len(days) + 60
    )
    found = admin._call("GET", f"/api/v2/dags/{DAG}/dagRuns", params={"run_type": "backfill", "limit": 100})["dag_runs"]
    assert {run["state"] for run in found} == {"success"}
    return {run["partition_key"]: run["dag_run_id"] for run in found}


def published(living: Living) -> dict[str, bytes]:
    root = living.fleet.home / "exports" / "period=2025-11"
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def latest(living: Living, month: str) -> dict[str, Any]:
    """The manifest of what stands published of the month."""
    root = living.fleet.home / "exports" / f"period={month}"
    stands = json.loads((root / "latest.json").read_text())
    manifest: dict[str, Any] = json.loads((root.parent / stands["manifest"]).read_text())
    return manifest
