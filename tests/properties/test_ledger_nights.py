"""A night read from the database is the night of the same events in a file, whatever nodes the database leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import delete
from tests.properties.money_worlds import World, worlds

from gpufleet.chargeback.billing import settled
from gpufleet.chargeback.buckets import InMemory
from gpufleet.chargeback.days import EPOCH, first_instant
from gpufleet.chargeback.nights import nights
from gpufleet.clock import ManualClock
from gpufleet.formats.events import event_of_row
from gpufleet.model.charge import Charge
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, Released, UsageEvent
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import facts
from gpufleet.store import ledger
from gpufleet.store import schema as t
from gpufleet.store.database import Database
from gpufleet.store.laid_aside import InFile
from gpufleet.store.migrate import migrate

KINDS = {
    Allocated: "allocated",
    Released: "released",
    Heartbeat: "heartbeat",
    NodeUp: "node-up",
    NodeDown: "node-down",
}
COLUMNS = ("id", "at", "node", "job", "attempt", "gpu", "team", "project")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}")
    migrate(found)
    yield found
    found.dispose()


def row(event: UsageEvent) -> dict[str, Any]:
    told = {f.name: getattr(event, f.name) for f in fields(event)}
    if holding := told.pop("holding", None):
        told["job"], told["attempt"], told["gpu"] = holding
    facts = {k: v for k, v in told.items() if k not in COLUMNS and v is not None}
    if "fraction" in facts:
        facts["fraction"] = f"{float(facts['fraction']):g}"
    return {**{k: told.get(k) for k in COLUMNS}, "event": KINDS[type(event)], "facts": facts}


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_the_ledgers_night_is_that_of_the_file(database: Database, tmp_path_factory: Any, world: World) -> None:
    one_version = {event.id: event for event in world.events}
    last = world.end - timedelta(days=1)
    since = EPOCH + timedelta(microseconds=first_instant(last, world.rates.timezone))
    with database.write() as connection:
        connection.execute(delete(t.usage_event))
        ledger.add_usages(connection, [row(event) for event in one_version.values()], datetime.now(UTC))
    folder: Path = tmp_path_factory.getbasetemp()
    with database.read() as connection:
        left_out = len(ledger.told_nodes(connection))
        read = [[event_of_row(r) for r in rows] for rows in ledger.usage_by_node(connection, since)]
        left_out -= len(read)
        made = nights(
            read, world.rates, [last], InFile(folder),
            past=lambda jobs: [
                [event_of_row(r) for r in rows] for rows in ledger.usage_of_past_nodes(connection, since, jobs)
            ],
        )  # fmt: skip
    found, charges = made.itemised(last, InFile(folder))
    whole, others = settled(one_version.values(), world.rates, last, world.end).itemised(last, InMemory())
    assert (found.lines, found.total, found.idle_hours) == (whole.lines, whole.total, whole.idle_hours)
    assert by_id(charges) == by_id(others)
    assert {id for id, _ in found.quarantined} <= {id for id, _ in whole.quarantined}
    if not left_out:
        assert found.quarantined == whole.quarantined


def by_id(charges: Iterator[Charge]) -> list[Charge]:
    return sorted(charges, key=lambda charge: charge.id)


UP = {"model": "H100-80", "gpus": 8, "capacity": "spot"}
BEGIN = datetime(2026, 3, 9, 10, tzinfo=UTC)


@pytest.mark.parametrize("heard", [True, False], ids=["it went on elsewhere", "nothing was heard of it since"])
def test_a_node_that_is_gone_still_says_that_a_job_went_on_there(
    database: Database, tmp_path: Path, heard: bool
) -> None:
    """Its first attempt was never seen to end; the second began on a spot machine that was gone before the day."""
    first = {"job": "j", "attempt": 1, "gpu": 0, "team": "vision", "project": "p"}
    second = first | {"attempt": 2}
    rows: list[dict[str, Any]] = [
        {"id": "a-up", "at": BEGIN, "event": "node-up", "node": "a", "facts": UP},
        {"id": "a1", "at": BEGIN, "event": "allocated", "node": "a", **first, "facts": {}},
        {"id": "s-up", "at": BEGIN, "event": "node-up", "node": "spot", "facts": UP},
        {"id": "s-down", "at": BEGIN + timedelta(hours=5), "event": "node-down", "node": "spot", "facts": {}},
    ]
    if heard:
        at = BEGIN + timedelta(hours=2)
        rows.append({"id": "s2", "at": at, "event": "allocated", "node": "spot", **second, "facts": {}})
    with database.write() as connection:
        connection.execute(delete(t.usage_event))
        ledger.add_usages(connection, rows, BEGIN)
        ledger.put_rates(connection, {"version": 1, "currency": "USD", "prices": []}, BEGIN)
    clock = ManualClock(BEGIN + timedelta(days=2))
    fleet = Fleet("test", tmp_path, database, {}, {}, clock, checkpoints_url="")
    bill, charges, witnesses = facts(fleet, [date(2026, 3, 10)]).itemised(date(2026, 3, 10))
    assert {w.node for w in witnesses} == ({"a", "spot"} if heard else {"a"}), "others are not even read"
    held = [c for c in charges if c.job]
    assert [c.attempt for c in held] == ([] if heard else [1])
    assert bill.idle_hours == (8 if heard else 7) * 24 * 10**6
