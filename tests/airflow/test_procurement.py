"""A dear purchase through a running Airflow: a person is asked on the run's page, says yes, and the machines come."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select
from tests.airflow.conftest import Living
from tests.sandboxes import eventually

from gpufleet.services.approve_purchase import purchase_state, waiting_purchases
from gpufleet.store import operations
from gpufleet.store import schema as t

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(400)]
DAG = "procure_capacity"


def asked_by(living: Living, purchase: str) -> str | None:
    """The run that asks about it: the one that was triggered, or a scheduled one that was quicker."""
    with living.fleet.database.read() as connection:
        return operations.named(connection, [purchase])[purchase].args.get("asked_by")


def test_a_person_says_yes_on_the_runs_page_and_the_machines_are_bought_and_watched(living: Living) -> None:
    admin = living.people["admin"]
    living.trigger("lin", name="dear", pods=2, gpus=8, capacity=["on-demand"], runtime="2h")
    (asked,) = eventually(lambda: waiting_purchases(living.fleet), within=60)
    assert (asked["hourly"], asked["total"], asked["team"]) == ("65.60", "131.20", "language")
    admin.trigger(DAG, {})
    run = eventually(lambda: asked_by(living, asked["purchase"]), within=60)
    tasks = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances"
    eventually(lambda: "awaiting_input" in {i["state"] for i in admin._call("GET", tasks)["task_instances"]}, within=60)
    task = f"{tasks}/approve/0"
    shown = admin._call("GET", f"{task}/hitlDetails")
    assert "Buy 2 x od-h100-east-a at 65.60/h" in shown["subject"] and "131.20 until its job has ended" in shown["body"]
    assert living.job("dear")["state"] == "pending"  # type: ignore[index]
    # A task that asked lives on for five seconds. Airflow 3.3.2 takes one that is answered before for a lost one, and asks
    # anew a minute later: its scheduler hears of the end of the first run only after the second was queued.
    time.sleep(12)
    admin._call("PATCH", f"{task}/hitlDetails", json={"chosen_options": ["Approve"], "params_input": {}})
    living.until("dear", "running", within=90)
    eventually(lambda: admin.run_state(DAG, run) == "success", within=150)
    assert purchase_state(living.fleet, asked["purchase"])["state"] == "joined"
    with living.fleet.database.read() as connection:
        told = connection.execute(select(t.audit.c.who).where(t.audit.c.action == "approve")).scalars()
        assert list(told) == ["admin"]
