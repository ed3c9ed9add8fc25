"""The night's bill through a running Airflow: a day of 23 hours, run twice, at once, cleared, and with a check that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from tests.airflow.conftest import Living
from tests.hooks import Hook, listening_hook
from tests.sandboxes import eventually
from tools.pictures import CHROMIUM, log_in

from gpufleet.store import ledger

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(500)]
DAG, DAY = "chargeback_nightly", "2026-03-08"
UP = datetime(2026, 3, 7, tzinfo=UTC)
RATES: dict[str, Any] = {
    "version": 1,
    "currency": "USD",
    "timezone": "America/New_York",
    "prices": [{"match": {"node": "ny1"}, "per_gpu_hour": "4.00"}],
}


@pytest.fixture
def spring(living: Living) -> Iterator[Living]:
    """A node of two GPUs that was up all day, and a job on one of them from midnight to four by the clocks there."""
    held = {"job": "ny-job", "attempt": 1, "gpu": 0, "node": "ny1"}
    owner = {"team": "vision", "project": "digits"}
    shape = {"model": "H100-80", "gpus": 2, "capacity": "on-demand"}
    events = [
        {"id": "ny1-up", "at": UP, "event": "node-up", "node": "ny1", "facts": shape},
        {"id": "ny-a", "at": datetime(2026, 3, 8, 5, tzinfo=UTC), "event": "allocated", **held, **owner, "facts": {}},
        {"id": "ny-r", "at": datetime(2026, 3, 8, 8, tzinfo=UTC), "event": "released", **held, "facts": {}},
        {
            "id": "ny1-down",
            "at": datetime(2026, 3, 9, 12, tzinfo=UTC),
            "event": "node-down",
            "node": "ny1",
            "facts": {},
        },
    ]
    with living.fleet.database.write() as connection:
        before = ledger.rates(connection)
        ledger.add_usages(connection, events, datetime.now(UTC))
        ledger.put_rates(connection, RATES, datetime.now(UTC))
    yield living
    with living.fleet.database.write() as connection:
        ledger.put_rates(connection, before, datetime.now(UTC))


def ends(living: Living, run: str, state: str = "success") -> None:
    admin = living.people["admin"]
    eventually(lambda: admin.run_state(DAG, run) in ("success", "failed"), within=200)
    assert admin.run_state(DAG, run) == state


def published(living: Living) -> dict[str, bytes]:
    root = living.fleet.home / "exports" / "period=2026-03"
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_day_of_23_hours_is_the_same_however_often_it_runs(spring: Living) -> None:
    admin = spring.people["admin"]
    first = admin.trigger(DAG, {"day": DAY})
    ends(spring, first)
    bill = admin.xcom(DAG, first, "settle")
    assert (bill["lines"][0]["gpu_hours"], bill["lines"][0]["total"]) == ("3.000000", "12.00")
    assert (bill["idle"]["gpu_hours"], bill["total"]) == ("43.000000", "184.00"), "46 GPU-hours: the day has 23"
    files = published(spring)
    at_once = [admin.trigger(DAG, {"day": DAY}) for _ in range(2)]
    for run in at_once:
        ends(spring, run)
        again = admin.xcom(DAG, run, "settle")
        assert (again["lines"], again["idle"], again["total"]) == (bill["lines"], bill["idle"], bill["total"])
    _clear(spring, first)
    ends(spring, first)
    assert published(spring) == files, "the same bytes, once"


def _clear(living: Living, run: str) -> None:
    body = {"dry_run": False, "dag_run_id": run, "only_failed": False, "reset_dag_runs": True}
    living.people["admin"]._call("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", json=body)
    eventually(lambda: living.people["admin"].run_state(DAG, run) in ("queued", "running"), within=30)


def test_a_failed_check_says_so_on_its_task_and_leaves_yesterday_s_files_alone(spring: Living, tmp_path: Path) -> None:
    admin = spring.people["admin"]
    before = published(spring)
    dear = {**RATES, "prices": [{"match": {}, "per_gpu_hour": "40000.00"}]}
    with spring.fleet.database.write() as connection:
        ledger.put_rates(connection, dear, datetime.now(UTC))
    with told_by_webhook(spring) as hook:
        run = admin.trigger(DAG, {"day": "2026-03-07"})
        ends(spring, run, "failed")
        ((_, token, told),) = eventually(lambda: hook.heard, within=30)
    assert (token, told["event"], told["task"]) == ("Bearer w0rd", "night-failed", "check")
    assert "price_nano failed" in told["why"]
    tasks = admin._call("GET", f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances")["task_instances"]
    states = {task["task_id"]: (task["state"], task["try_number"]) for task in tasks}
    assert states["settle"][0] == "success" and states["check"] == ("failed", 1), "it is not tried again"
    assert states["publish"][0] == "upstream_failed"
    said = json.dumps(admin._call("GET", f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/check/logs/1"))
    assert (
        "2026-03-07 is not published: check of 2026-03-07: expect_column_values_to_be_between on price_nano failed"
        in said
    )
    assert published(spring) == before
    assert (Path(spring.fleet.home) / "data-docs" / "2026-03-07" / "index.html").is_file()
    seen = _log_as_people_see_it(spring, run, tmp_path / "failed-check.png")
    assert "is not published: check of 2026-03-07" in seen and "Data Docs: " in seen


@contextmanager
def told_by_webhook(living: Living) -> Iterator[Hook]:
    """With the connection that says where, made as an administrator makes it."""
    admin = living.people["admin"]
    with listening_hook() as hook:
        where = {"connection_id": "gpufleet_webhook", "conn_type": "http", "host": hook.url, "password": "w0rd"}
        admin._call("POST", "/api/v2/connections", json=where)
        try:
            yield hook
        finally:
            admin._call("DELETE", "/api/v2/connections/gpufleet_webhook")


def _log_as_people_see_it(living: Living, run: str, picture: Path) -> str:
    """The log of the failed task, as Airflow's own page shows it to a person of finance."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 900})
        log_in(page, living.embedded.url, "finn")
        page.goto(f"{living.embedded.url}/dags/{DAG}/runs/{run}/tasks/check")
        page.get_by_text("is not published").first.wait_for(timeout=60_000)
        page.screenshot(path=picture)
        said = page.inner_text("body")
        browser.close()
    return said
