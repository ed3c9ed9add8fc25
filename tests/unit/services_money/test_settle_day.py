"""A finance day from the ledger to the statement, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpufleet.chargeback import conservation
from gpufleet.clock import ManualClock
from gpufleet.commands.money import bill_fleet
from gpufleet.errors import Invalid, Permanent
from gpufleet.services import settle_day as service
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import Facts
from gpufleet.services.settle_day import settle_day
from gpufleet.store import ledger
from gpufleet.store.database import Database

DAY = "2026-03-10"
TEN = datetime(2026, 3, 10, 10, tzinfo=UTC)
RATES = {
    "version": 1,
    "currency": "USD",
    "timezone": "UTC",
    "prices": [{"match": {"capacity": "reserved"}, "per_gpu_hour": "2.40"}],
}
NODE = {"model": "H100-80", "gpus": 8, "capacity": "reserved", "provider": "owned", "region": ""}
HELD = {"job": "j", "attempt": 1, "node": "n1", "gpu": 0}
OWNED = {"team": "vision", "project": "digits"}


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    clock = ManualClock(TEN + timedelta(hours=2))
    found = Fleet("test", tmp_path, database, {}, {}, clock, checkpoints_url="")
    with database.write() as connection:
        ledger.put_rates(connection, RATES, clock.now())
    return found


@pytest.fixture
def tell(fleet: Fleet) -> Callable[..., None]:
    def write(id: str, event: str, at: datetime, **rest: Any) -> None:
        with fleet.database.write() as connection:
            ledger.add_usage(
                connection, id=id, at=at, event=event, recorded_at=fleet.clock.now(), **{"node": "n1", **rest}
            )

    write("n1-up", "node-up", TEN, facts=NODE)
    write("a", "allocated", TEN, **HELD, **OWNED, facts={"quota": "guaranteed", "priority": 50})
    slice_ = {"quota": "over-quota", "priority": 50, "profile": "3g.40gb", "start": 4}
    write("s", "allocated", TEN, **HELD | {"gpu": 1, "job": "k"}, **OWNED, facts=slice_)
    write("s-end", "released", TEN + timedelta(hours=1), **HELD | {"gpu": 1, "job": "k"}, facts={"start": 4})
    write("a-end", "released", TEN + timedelta(hours=2), **HELD, facts={})
    write("n1-down", "node-down", TEN + timedelta(hours=2), facts={})
    return write


def test_a_day_is_published(fleet: Fleet, tell: Callable[..., None]) -> None:
    answer = settle_day(fleet, DAY)
    (line,) = answer["lines"]
    assert (line["gpu_hours"], line["over_quota_gpu_hours"], line["total"]) == ("2.500000", "0.500000", "6.00")
    assert answer["idle"] == {"gpu_hours": "13.500000", "cost": "32.40"}
    assert (answer["day"], answer["state"], answer["currency"], answer["total"]) == (DAY, "provisional", "USD", "38.40")
    assert (answer["quarantined"], answer["revision"]) == ([], 6)
    with fleet.database.read() as connection:
        row = ledger.day(connection, DAY)
        (written,) = ledger.statement(connection, DAY)
    assert row is not None
    assert (row.state, row.revision, row.currency, row.total_nano) == ("provisional", 6, "USD", 38_400_000_000)
    assert row.answer == {k: v for k, v in answer.items() if k not in ("csv", "revision")}
    assert (written.team, written.project, written.total_nano) == ("vision", "digits", 6_000_000_000)
    assert written.facts == line
    text = Path(answer["csv"]).read_text()
    assert Path(answer["csv"]) == fleet.home / "exports" / f"statement-{DAY}.csv"
    assert f"{DAY},vision,digits,2.500000,0.500000,6.00,0.00,0.00,0.00,6.00,USD,provisional\n" in text


def test_the_same_ledger_gives_the_same_bytes(fleet: Fleet, tell: Callable[..., None]) -> None:
    first = settle_day(fleet, DAY)
    before = Path(first["csv"]).read_bytes()
    assert json.dumps(settle_day(fleet, DAY)) == json.dumps(first)
    assert Path(first["csv"]).read_bytes() == before


def test_a_second_run_replaces_the_statement(fleet: Fleet, tell: Callable[..., None]) -> None:
    settle_day(fleet, DAY)
    tell("late", "allocated", TEN, **HELD | {"gpu": 2, "job": "m"}, team="nlp", project="chat", facts={})
    tell("late-end", "released", TEN + timedelta(hours=1), **HELD | {"gpu": 2, "job": "m"}, facts={})
    answer = settle_day(fleet, DAY)
    assert [(x["team"], x["total"]) for x in answer["lines"]] == [("nlp", "2.40"), ("vision", "6.00")]
    assert answer["total"] == "38.40", "what was idle is now used: the fleet costs the same"
    with fleet.database.read() as connection:
        assert [r.team for r in ledger.statement(connection, DAY)] == ["nlp", "vision"]
        assert len(ledger.days(connection)) == 1


def test_use_of_today_runs_to_the_end_of_the_day(fleet: Fleet) -> None:
    with fleet.database.write() as connection:
        facts = {"quota": "guaranteed", "priority": 0, "fraction": "0.5"}
        ledger.add_usage(
            connection,
            id="a",
            at=TEN,
            event="allocated",
            recorded_at=TEN,
            node="n1",
            job="j",
            attempt=1,
            gpu=0,
            **OWNED,
            facts=facts,
        )
    (line,) = settle_day(fleet, DAY)["lines"]
    assert line["gpu_hours"] == "7.000000"


@pytest.mark.parametrize("day", ["2026-03-11", "2031-01-01"])
def test_a_day_that_has_not_begun_is_empty(fleet: Fleet, day: str) -> None:
    with fleet.database.write() as connection:
        ledger.add_usage(connection, id="up", at=TEN, event="node-up", recorded_at=TEN, node="n1", facts=NODE)
    answer = settle_day(fleet, day)
    assert (answer["lines"], answer["idle"]["gpu_hours"], answer["total"]) == ([], "0.000000", "0.00")


def test_a_quiet_day_still_costs_its_idle(fleet: Fleet) -> None:
    with fleet.database.write() as connection:
        up = TEN - timedelta(days=5)
        ledger.add_usage(connection, id="up", at=up, event="node-up", recorded_at=up, node="n1", facts=NODE)
    assert settle_day(fleet, "2026-03-09")["idle"] == {"gpu_hours": "192.000000", "cost": "460.80"}


@pytest.mark.parametrize("day", ["tomorrow", "2026-02-30", "", None])
def test_a_text_that_is_no_day_is_refused(fleet: Fleet, day: Any) -> None:
    with pytest.raises(Invalid, match=r"is not a day; write it as 2026-03-10\."):
        settle_day(fleet, day)


def test_without_rates_the_file_is_named(fleet: Fleet) -> None:
    with fleet.database.write() as connection:
        ledger.put_rates(connection, {}, TEN)
    with pytest.raises(Invalid, match=rf"No rates are configured: write {fleet.home}/rates\.yaml"):
        settle_day(fleet, DAY)


def test_a_mistake_in_the_rates_is_named(fleet: Fleet) -> None:
    with fleet.database.write() as connection:
        ledger.put_rates(connection, RATES | {"idel": "platform"}, TEN)
    with pytest.raises(Invalid, match=r"rates\.yaml \(as applied\), line 1: idel: unknown key"):
        settle_day(fleet, DAY)


def test_a_bill_that_does_not_add_up_is_not_published(
    fleet: Fleet, tell: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "faults", lambda *_: iter(["a cent is missing"]))
    with pytest.raises(Permanent, match="nothing was published: a cent is missing"):
        settle_day(fleet, DAY)
    with fleet.database.read() as connection:
        assert ledger.day(connection, DAY) is None
    assert not (fleet.home / "exports").exists()
    assert service.faults is not conservation.faults


def test_a_later_statement_is_never_replaced_by_an_earlier_one(
    fleet: Fleet, tell: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run reads more of the ledger and publishes first: ours bills again with what is known now."""
    real, once = Facts.itemised, iter([True])

    def slow(facts: Facts, day: date) -> Any:
        if next(once, False):
            tell("late", "allocated", TEN, **HELD | {"gpu": 2, "job": "m"}, team="nlp", project="chat", facts={})
            assert settle_day(fleet, DAY)["revision"] == 7
        return real(facts, day)

    monkeypatch.setattr(Facts, "itemised", slow)
    assert settle_day(fleet, DAY)["revision"] == 7
    with fleet.database.read() as connection:
        row = ledger.day(connection, DAY)
    assert row is not None
    assert row.revision == 7


def test_a_closed_day_stands(fleet: Fleet, tell: Callable[..., None]) -> None:
    told = settle_day(fleet, DAY)
    with fleet.database.write() as connection:
        ledger.put_day(connection, DAY, [], state="closed")
    tell("late", "allocated", TEN, **HELD | {"gpu": 2, "job": "m"}, team="nlp", project="chat", facts={})
    assert settle_day(fleet, DAY) == {**told, "state": "closed"}, "what comes late is a correction"


def test_the_fleet_is_billed_from_its_ledger(
    fleet: Fleet, tell: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    bill_fleet(fleet, DAY, "2026-03-11", by="team", exact=False, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["lines"][0]["project"], told["total"]) == (None, "38.40")
