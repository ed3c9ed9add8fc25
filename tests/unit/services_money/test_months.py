"""A month from its first settled day to its close and after, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import DBAPIError

from gpufleet.chargeback.month import dealt, summed
from gpufleet.clock import ManualClock
from gpufleet.errors import Forbidden, Invalid
from gpufleet.formats.statement import statement_json, statement_lines
from gpufleet.model.charge import Charge
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.services.months import close_month, days_of, reopen_month, statement_of, verify_month
from gpufleet.services.settle_day import settle_day
from gpufleet.store import charges as stored
from gpufleet.store import ledger
from gpufleet.store import schema as t
from gpufleet.store.database import Database

ROOT, ADA = Principal("root", is_admin=True), Principal("ada")
FIRST = datetime(2026, 2, 1, 10, tzinfo=UTC)
RATES = {
    "version": 1,
    "currency": "USD",
    "timezone": "UTC",
    "idle": "proportional",
    "prices": [{"match": {}, "per_gpu_hour": "2.333333"}],
    "shared_costs": [
        {"name": "storage", "amount": "100.00", "from": "2026-02-01", "to": "2026-03-01", "split": "even"}
    ],
}


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    found = Fleet("test", tmp_path, database, {}, {}, ManualClock(FIRST + timedelta(days=40)), checkpoints_url="")
    with database.write() as connection:
        ledger.put_rates(connection, RATES, FIRST)
    return found


@pytest.fixture
def tell(fleet: Fleet) -> Callable[..., None]:
    def write(id: str, event: str, at: datetime, **rest: Any) -> None:
        with fleet.database.write() as connection:
            ledger.add_usage(
                connection, id=id, at=at, event=event, recorded_at=fleet.clock.now(), **{"node": "n1", **rest}
            )

    write("up", "node-up", FIRST, facts={"model": "H100-80", "gpus": 4, "capacity": "on-demand"})
    for job, gpu, team, hours in (("j", 0, "vision", 30), ("k", 1, "vision", 7), ("l", 2, "nlp", 11)):
        held = {"job": job, "attempt": 1, "gpu": gpu}
        write(f"{job}-a", "allocated", FIRST, **held, team=team, project="p", facts={})
        write(f"{job}-r", "released", FIRST + timedelta(hours=hours), **held, facts={})
    write("down", "node-down", FIRST + timedelta(hours=31), facts={})
    return write


@pytest.fixture
def month(fleet: Fleet, tell: Callable[..., None]) -> Fleet:
    """February, every day of it settled."""
    first, last = days_of("2026-02")
    for n in range((last - first).days):
        settle_day(fleet, (first + timedelta(days=n)).isoformat())
    return fleet


def kept(fleet: Fleet, first: date, last: date) -> list[Charge]:
    with fleet.database.read() as connection:
        return list(stored.charges(connection, first, last))


FEBRUARY = days_of("2026-02")


def test_every_level_of_the_statement_adds_up_to_the_cent(month: Fleet) -> None:
    found = statement_of(month, "2026-02")
    told = statement_json(found)
    exact = sum(c.cost_nano for c in kept(month, *FEBRUARY))
    assert abs(found.total * 10**7 - exact) <= 5 * 10**6
    assert told["standing"] == "provisional" and [t["team"] for t in told["teams"]] == ["nlp", "platform", "vision"]
    cents = lambda text: int(text.replace(".", ""))  # noqa: E731
    for team in told["teams"]:
        assert cents(team["total"]) == sum(cents(p["total"]) for p in team["projects"])
    whole = sum(cents(team["total"]) for team in told["teams"])
    assert whole + cents(told["idle"]["cost"]) + cents(told["unused_commitment"]["cost"]) == cents(told["total"])
    assert told["total"] == "389.33" and statement_lines(found)[-1].endswith("389.33")


def test_a_month_that_is_not_over_or_not_settled_cannot_be_closed(fleet: Fleet, tell: Callable[..., None]) -> None:
    with pytest.raises(Invalid, match="2026-02-01 is not settled; run chargeback_nightly"):
        close_month(fleet, "2026-02", ROOT)
    with pytest.raises(Invalid, match="2026-03 is not over: it can be closed from 2026-04-01"):
        close_month(fleet, "2026-03", ROOT)
    with pytest.raises(Invalid, match="'2026-2' is not a month"):
        close_month(fleet, "2026-2", ROOT)


def test_only_the_platform_closes_and_opens(month: Fleet) -> None:
    with pytest.raises(Forbidden, match="'ada' may not close a month"):
        close_month(month, "2026-02", ADA)
    close_month(month, "2026-02", ROOT)
    with pytest.raises(Forbidden, match="'ada' may not open a closed month"):
        reopen_month(month, "2026-02", "because", ADA)


def test_closed_twice_is_closed_once_and_can_be_verified(month: Fleet) -> None:
    first = close_month(month, "2026-02", ROOT)
    assert close_month(month, "2026-02", ROOT) == first == verify_month(month, "2026-02")
    assert statement_of(month, "2026-02").standing.value == "closed"
    with pytest.raises(Invalid, match="2026-02-03 is closed: its statement stands"):
        settle_day(month, "2026-02-03")


CHANGES = {
    "a charge changed": lambda: update(t.charge).where(t.charge.c.day == FEBRUARY[0]).values(cost_nano=1),
    "a charge removed": lambda: delete(t.charge).where(t.charge.c.day == FEBRUARY[0]),
    "a line changed": lambda: (
        update(t.statement_line).where(t.statement_line.c.day == "2026-02-01").values(total_nano=1)
    ),
    "a day removed": lambda: delete(t.day_status).where(t.day_status.c.day == "2026-02-01"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_database_itself_refuses_a_change_to_a_closed_month(month: Fleet, change: Callable[[], Any]) -> None:
    close_month(month, "2026-02", ROOT)
    with pytest.raises(DBAPIError, match="this month is closed"), month.database.write() as connection:
        connection.execute(change())
    verify_month(month, "2026-02")


@pytest.fixture
def late(month: Fleet, tell: Callable[..., None]) -> Iterator[Fleet]:
    """February is closed; then somebody hears of three more hours in it."""
    close_month(month, "2026-02", ROOT)
    held = {"job": "m", "attempt": 1, "gpu": 3}
    tell("m-a", "allocated", FIRST + timedelta(hours=1), **held, team="nlp", project="late", facts={})
    tell("m-r", "released", FIRST + timedelta(hours=4), **held, facts={})
    yield month


def test_what_is_heard_later_is_booked_in_the_open_month(late: Fleet) -> None:
    settle_day(late, "2026-03-02")
    booked = [c for c in kept(late, *days_of("2026-03")) if c.corrects]
    assert {c.corrects for c in booked} == {"2026-02"} and {c.day for c in booked} == {date(2026, 3, 2)}
    assert sum(c.cost_nano for c in booked) == 0, "the GPU had cost the same, idle: who bears it is corrected"
    (use,) = [c for c in booked if c.job == "m"]
    assert (use.team, use.hours_nano, use.cost_nano) == ("nlp", 3 * 10**9, 6_999_999_000)
    assert (use.begin, use.end) == (FIRST + timedelta(hours=1), FIRST + timedelta(hours=4))
    verify_month(late, "2026-02")


def test_twice_is_once_and_what_is_corrected_is_not_corrected_again(late: Fleet, tell: Callable[..., None]) -> None:
    settle_day(late, "2026-03-02")
    first = kept(late, *days_of("2026-03"))
    settle_day(late, "2026-03-02")
    assert kept(late, *days_of("2026-03")) == first
    settle_day(late, "2026-03-03")
    assert not [c for c in kept(late, date(2026, 3, 3), date(2026, 3, 4)) if c.corrects]
    tell("j-r2", "released", FIRST + timedelta(hours=29), job="j", attempt=1, gpu=0, facts={})
    settle_day(late, "2026-03-04")
    closed, corrected = kept(late, *FEBRUARY), [c for c in kept(late, *days_of("2026-03")) if c.corrects]
    hours = sum(c.hours_nano for c in [*closed, *corrected] if c.job == "j")
    assert hours == 29 * 10**9, "closed and corrected are what is known now"


def test_opened_again_it_says_why_and_keeps_what_it_was(late: Fleet) -> None:
    with pytest.raises(Invalid, match="say it with --why"):
        reopen_month(late, "2026-02", " ", ROOT)
    before = verify_month(late, "2026-02")["digest"]
    reopen_month(late, "2026-02", "auditors asked", ROOT)
    with pytest.raises(Invalid, match="2026-02 is not closed"):
        verify_month(late, "2026-02")
    settle_day(late, "2026-02-01")
    closed = close_month(late, "2026-02", ROOT)
    assert closed["digest"] != before and [p["digest"] for p in closed["closed_before"]] == [before]


def test_both_databases_and_a_second_run_give_the_same_bytes(month: Fleet) -> None:
    assert close_month(month, "2026-02", ROOT)["digest"] == DIGEST


DIGEST = "2e94c951a8e91f37755f2b6e58901cef54863efda16178d596c274cf68e83552"


@pytest.mark.parametrize(("currency", "total"), [("JPY", "389"), ("KWD", "389.333"), ("USD", "389.33")])
def test_currencies_have_their_own_decimals(month: Fleet, currency: str, total: str) -> None:
    with month.database.write() as connection:
        ledger.put_rates(connection, {**RATES, "currency": currency}, FIRST)
    told = statement_json(statement_of(month, "2026-02"))
    assert told["total"] == total and json.dumps(told)


def test_credits_are_dealt_below_nothing_too(month: Fleet) -> None:
    from dataclasses import replace

    from gpufleet.model.charge import ChargeKind

    uses = [c for c in kept(month, *FEBRUARY) if c.kind is ChargeKind.USE]
    given = [replace(c, kind=ChargeKind.CREDIT, cost_nano=-c.cost_nano // 3, hours_nano=0) for c in uses]
    found = dealt(summed([*uses, *given]), 2)
    assert sum(row.credit for row in found.rows) == -((sum(-c.cost_nano for c in given) + 5 * 10**6) // 10**7)
    assert all(row.credit <= 0 for row in found.rows)
