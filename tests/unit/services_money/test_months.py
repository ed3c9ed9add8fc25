"""A month from its nights to its close and beyond, on both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, update
from sqlalchemy.exc import DBAPIError
from tests.charges import charge

from gpufleet.chargeback.canonical import seal
from gpufleet.chargeback.losses import Fault
from gpufleet.clock import ManualClock
from gpufleet.errors import Forbidden, Invalid, NotFound
from gpufleet.model.statement import Standing
from gpufleet.model.tenancy import Member, Principal, Role, Team
from gpufleet.services.close_month import (
    close_due_months,
    close_month,
    correct_closed_months,
    estimate_days,
    reopen_month,
    verify_month,
)
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import Facts
from gpufleet.services.metered_charges import settle_again
from gpufleet.services.month_charges import losses, month_charges, month_named
from gpufleet.services.settle_day import settle_day
from gpufleet.services.show_month import month_view, note_alerts, statement_of
from gpufleet.store import ledger, months, tenancy
from gpufleet.store import schema as t
from gpufleet.store.database import Database

FEBRUARY = "2026-02"
TEN = datetime(2026, 2, 10, 10, tzinfo=UTC)
ADMIN = Principal("root", is_admin=True)
FINA = Principal("fina")
RATES = {
    "version": 1,
    "currency": "USD",
    "timezone": "UTC",
    "prices": [{"match": {}, "per_gpu_hour": "2.00"}],
}
NODE = {"model": "H100-80", "gpus": 1, "capacity": "reserved", "provider": "aws", "region": "us-east-1"}
HELD = {"job": "j", "attempt": 1, "node": "n1", "gpu": 0}
OWNED = {"team": "vision", "project": "digits"}


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    """Three hours of one GPU on 10 February at 2.00: two of vision, one idle; it is 12 March."""
    found = Fleet("test", tmp_path, database, {}, {}, ManualClock(datetime(2026, 3, 12, 9, tzinfo=UTC)), "")
    people = (Member("fina", Role.FINANCE), Member("lena", Role.LEAD))
    with database.write() as connection:
        ledger.put_rates(connection, RATES, found.clock.now())
        tenancy.replace_tenancy(connection, (Team("vision", "q", ("digits",), people),), ())
    hear(found, "n1-up", "node-up", TEN, facts=NODE)
    hear(found, "a", "allocated", TEN, **HELD, **OWNED, facts={"quota": "guaranteed"})
    hear(found, "a-end", "released", TEN + timedelta(hours=2), **HELD)
    hear(found, "n1-down", "node-down", TEN + timedelta(hours=3))
    return found


def hear(fleet: Fleet, id: str, event: str, at: datetime, **rest: Any) -> None:
    values = {"node": "n1", "facts": {}, **rest}
    with fleet.database.write() as connection:
        ledger.add_usage(connection, id=id, at=at, event=event, recorded_at=fleet.clock.now(), **values)


def hear_of_another_hour(fleet: Fleet) -> None:
    """A meter that was down tells late that vision also held the idle hour."""
    held = HELD | {"attempt": 2}
    hear(fleet, "b", "allocated", TEN + timedelta(hours=2), **held, **OWNED, facts={"quota": "guaranteed"})
    hear(fleet, "b-end", "released", TEN + timedelta(hours=3), **held)


def end_attempt(fleet: Fleet, why: str, saved: datetime | None) -> None:
    """Job j's attempt of 10:00 to 12:00 ends so."""
    with fleet.database.write() as connection:
        job = {"id": "j", "team": "vision", "project": "digits", "queue": "q", "kind": "training", "priority": 50}
        connection.execute(insert(t.job).values(**job, spec={}, submitted_at=TEN, state="pending"))
        times = {"decided_at": TEN, "running_at": TEN, "ended_at": TEN + timedelta(hours=2)}
        connection.execute(
            insert(t.attempt).values(job="j", number=1, state="ended", cluster="c", end_reason=why, **times)
        )
        if saved is not None:
            connection.execute(insert(t.checkpoint).values(job="j", attempt=1, step=5, at=saved, bytes=9))


def test_a_day_is_estimated_when_it_is_two_days_old(fleet: Fleet) -> None:
    for day in ("2026-03-10", "2026-03-11"):
        settle_day(fleet, day)
    assert estimate_days(fleet) == ["2026-03-10"]
    assert estimate_days(fleet) == []
    with fleet.database.read() as connection:
        states = months.day_states(connection, date(2026, 3, 1), date(2026, 4, 1))
    assert states == {"2026-03-10": "estimated", "2026-03-11": "provisional"}


def test_a_month_is_shown_closed_and_verified(fleet: Fleet) -> None:
    close = close_month(fleet, FEBRUARY, FINA)
    assert (close["version"], close["closed_by"], close["total_nano"]) == (1, "fina", 6 * 10**9)
    assert close_month(fleet, FEBRUARY, FINA) == close, "closing again changes nothing"
    found = statement_of(fleet, FEBRUARY)
    assert (found.standing, found.total, found.idle_cost, found.end) == (Standing.CLOSED, 600, 200, date(2026, 3, 1))
    (row,) = found.rows
    assert (row.team, row.project, row.usage, row.guaranteed_hours) == ("vision", "digits", 400, 2_000_000)
    assert verify_month(fleet, FEBRUARY)["holds"]
    assert month_view(fleet, FEBRUARY) == month_view(fleet, FEBRUARY)


@pytest.mark.parametrize(
    "change",
    [
        insert(t.charge).values(
            day="2026-02-10", id="x", kind="use", begin=TEN, end=TEN, team="a", project="", cost_nano=1, billed_nano=1,
            hours_nano=0, job="", node="", profile="", fraction="", model="", capacity="", provider="", region="",
            quota="", commitment="", estimated=False, corrects="", note="",
        ),
        update(t.charge).where(t.charge.c.day == "2026-02-10").values(cost_nano=0),
        update(t.charge).where(t.charge.c.day == "2026-02-10").values(day="2026-04-10"),
        delete(t.charge).where(t.charge.c.day == "2026-02-10"),
        update(t.day_status).where(t.day_status.c.day == "2026-02-10").values(state="provisional"),
        delete(t.day_status),
        delete(t.statement_line),
        delete(t.month_close),
    ],
    ids=["a new charge", "a charge", "a charge taken out", "a charge gone", "its day", "no day", "no statement", "no close"],
)  # fmt: skip
def test_the_database_itself_refuses_to_change_a_closed_month(fleet: Fleet, change: Any) -> None:
    close_month(fleet, FEBRUARY, FINA)
    with pytest.raises(DBAPIError, match=r"is closed|stays written down"), fleet.database.write() as connection:
        connection.execute(change)
    assert verify_month(fleet, FEBRUARY)["holds"]


def test_a_closed_day_is_not_settled_again(fleet: Fleet) -> None:
    close_month(fleet, FEBRUARY, FINA)
    assert settle_day(fleet, "2026-02-10")["state"] == "closed"
    with pytest.raises(Invalid, match="closed with its month"):
        settle_again(fleet, [date(2026, 2, 10)], "estimated")


def test_the_night_closes_what_is_due_but_not_what_a_person_opened_again(fleet: Fleet) -> None:
    for day in (date(2026, 2, 10), date(2026, 3, 11)):
        settle_again(fleet, [day], "provisional")
    assert close_due_months(fleet) == [], "its other days are still to be published"
    for number in range(11, 29):
        settle_again(fleet, [date(2026, 2, number)], "provisional")
    assert close_due_months(fleet) == [FEBRUARY], "the ledger begins on the 10th"
    assert close_due_months(fleet) == []
    reopen_month(fleet, FEBRUARY, ADMIN, "late bill")
    assert close_due_months(fleet) == []


def test_work_that_the_platform_lost_is_given_back_and_the_close_books_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With charges that name attempts: of the last hour's 2.00 a half."""
    (fleet.home / "finance.yaml").write_text('version: 1\ncredits: {platform-loss: share, share: "0.5"}\n')
    used = charge("2026-02-10", cost=4, job="j", begin=TEN, end=TEN + timedelta(hours=2), hours=2)
    end_attempt(fleet, "preempt for prod-chat", TEN + timedelta(hours=1))
    real = Facts.itemised

    def only(facts: Facts, day: date) -> Any:
        found, _, witnesses = real(facts, day)
        return found, iter([used] if day == used.day else []), witnesses

    monkeypatch.setattr(Facts, "itemised", only)
    settle_again(fleet, [used.day], "provisional")
    before = statement_of(fleet, FEBRUARY)
    (row,) = before.rows
    assert (row.usage, row.lost_cost, row.lost_hours, row.credit) == (400, 200, 1_000_000, -100)
    (waste,) = month_view(fleet, FEBRUARY)["wasted"]
    nothing = {"idle_hours": 0, "idle_cost": 0, "over_hours": 0, "over_cost": 0}
    assert waste == {"team": "vision", "lost_hours": 10**9, "lost_cost": 2 * 10**9, **nothing}
    with fleet.database.write() as connection:
        connection.execute(update(t.attempt).values(idle_since=TEN + timedelta(minutes=90)))
    (waste,) = month_view(fleet, FEBRUARY)["wasted"]
    assert (waste["idle_hours"], waste["idle_cost"]) == (10**9 // 2, 10**9)
    close = close_month(fleet, FEBRUARY, FINA)
    assert (close["rows"], close["total_nano"]) == (2, 3 * 10**9)
    after = statement_of(fleet, FEBRUARY)
    assert (after.rows, after.total) == (before.rows, before.total)
    assert correct_closed_months(fleet) == []


def test_what_comes_late_is_booked_in_the_open_month_once(fleet: Fleet) -> None:
    close_month(fleet, FEBRUARY, FINA)
    before = statement_of(fleet, FEBRUARY)
    hear_of_another_hour(fleet)
    booked = correct_closed_months(fleet)
    assert sorted((c.team, c.kind.value, c.cost_nano, c.hours_nano) for c in booked) == [
        ("platform", "idle", -2 * 10**9, -(10**9)),
        ("vision", "use", 2 * 10**9, 10**9),
    ]
    assert {(c.day, c.corrects, c.begin.date()) for c in booked} == {(date(2026, 3, 12), FEBRUARY, date(2026, 2, 10))}
    assert correct_closed_months(fleet) == [], "a second run finds nothing more to say"
    assert statement_of(fleet, FEBRUARY) == before
    settle_again(fleet, [date(2026, 3, 12)], "provisional")
    march = statement_of(fleet, "2026-03")
    assert (march.total, march.idle_cost, march.rows[0].usage) == (0, -200, 200), "the night leaves corrections alone"
    hear(fleet, "a-late", "released", TEN + timedelta(hours=1), **HELD)
    assert sum(c.cost_nano for c in correct_closed_months(fleet)) == 0, "only the further difference"


def test_a_changed_price_list_never_rewrites_a_closed_month(fleet: Fleet) -> None:
    fleet.clock.advance(timedelta(minutes=1))  # type: ignore[attr-defined]
    close_month(fleet, FEBRUARY, FINA)
    with fleet.database.write() as connection:
        told = ledger.rates(connection)
        ledger.put_rates(connection, {**told, "prices": [{"match": {}, "per_gpu_hour": "999.00"}]}, fleet.clock.now())
    fleet.clock.advance(timedelta(days=1))  # type: ignore[attr-defined]
    hear(
        fleet,
        "n-new",
        "node-up",
        fleet.clock.now(),
        node="new",
        facts={"model": "H100-80", "gpus": 8, "capacity": "spot"},
    )
    assert correct_closed_months(fleet) == []
    hear_of_another_hour(fleet)
    late = {c.kind.value: c.cost_nano for c in correct_closed_months(fleet)}
    assert late == {"use": 2 * 10**9, "idle": -2 * 10**9}, (
        "what comes late costs what it cost when the month was closed"
    )


def test_what_is_heard_of_while_a_month_is_being_closed_is_not_lost(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its day was settled already when the event came, and the close was written after it."""

    def slow(fleet: Fleet, days: Any, standing: str) -> None:
        settle_again(fleet, days, standing)
        fleet.clock.advance(timedelta(minutes=3))  # type: ignore[attr-defined]
        hear_of_another_hour(fleet)
        fleet.clock.advance(timedelta(minutes=3))  # type: ignore[attr-defined]

    monkeypatch.setattr("gpufleet.services.close_month.settle_again", slow)
    close_month(fleet, FEBRUARY, FINA)
    assert sum(c.hours_nano for c in correct_closed_months(fleet) if c.kind.value == "use") == 10**9
    assert correct_closed_months(fleet) == []


def test_a_month_is_opened_again_by_the_platform_alone_and_its_hash_is_kept(fleet: Fleet) -> None:
    first = close_month(fleet, FEBRUARY, FINA)
    for who, why, error in ((FINA, "late bill", Forbidden), (ADMIN, " ", Invalid)):
        with pytest.raises(error):
            reopen_month(fleet, FEBRUARY, who, why)
    hear_of_another_hour(fleet)
    reopen_month(fleet, FEBRUARY, ADMIN, "late bill")
    with fleet.database.read() as connection:
        (entry,) = connection.execute(t.audit.select().where(t.audit.c.action == "reopen-month"))
    assert (entry.who, first["sha256"] in entry.detail) == ("root", True)
    with pytest.raises(NotFound):
        verify_month(fleet, FEBRUARY)
    again = close_month(fleet, FEBRUARY, FINA)
    assert (again["version"], again["sha256"] != first["sha256"]) == (2, True)
    assert [c["sha256"] for c in month_view(fleet, FEBRUARY)["closes"]] == [first["sha256"], again["sha256"]]
    assert statement_of(fleet, FEBRUARY).rows[0].usage == 600
    assert correct_closed_months(fleet) == []


def test_closed_corrected_opened_and_closed_again_keeps_every_cent(fleet: Fleet) -> None:
    close_month(fleet, FEBRUARY, FINA)
    hear_of_another_hour(fleet)
    correct_closed_months(fleet)
    reopen_month(fleet, FEBRUARY, ADMIN, "late bill")
    close_month(fleet, FEBRUARY, FINA)
    correct_closed_months(fleet)
    with fleet.database.read() as connection:
        assert seal(months.booked_about(connection, FEBRUARY)).total_nano == 0
        assert sum(c.cost_nano for c in months.booked_about(connection, FEBRUARY) if c.team == "vision") == 0
        charges = list(month_charges(connection, month_named(FEBRUARY)))
    assert sum(c.cost_nano for c in charges if c.team == "vision") == 6 * 10**9


@pytest.mark.parametrize(
    ("month", "who", "error", "told"),
    [
        ("2026-03", FINA, Invalid, "2026-03 may be closed from 2026-04-10 on"),
        ("2026-2", FINA, Invalid, "'2026-2' is not a month; write it as 2026-03"),
        (FEBRUARY, Principal("lena"), Forbidden, "ask finance or the platform"),
    ],
)
def test_a_month_is_closed_on_its_day_by_finance(
    fleet: Fleet, month: str, who: Principal, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        close_month(fleet, month, who)


def test_the_day_of_the_close_is_configured(fleet: Fleet) -> None:
    (fleet.home / "finance.yaml").write_text("version: 1\nclose_on: 15\n")
    with pytest.raises(Invalid, match="from 2026-03-15 on"):
        close_month(fleet, FEBRUARY, FINA)


def test_a_team_is_told_of_its_budget_once_for_each_threshold(fleet: Fleet) -> None:
    (fleet.home / "finance.yaml").write_text('version: 1\nbudgets: {vision: "5.00"}\nalerts: [50, 80, 100]\n')
    settle_again(fleet, [date(2026, 2, 10)], "provisional")
    assert [(a["team"], a["threshold"]) for a in note_alerts(fleet, FEBRUARY)] == [("vision", 50), ("vision", 80)]
    assert note_alerts(fleet, FEBRUARY) == []
    (_, vision) = statement_of(fleet, FEBRUARY).budgets
    assert (vision.team, vision.actual, vision.budget) == ("vision", 400, 500)
    assert vision.forecast == 400 + 18 * 400, "18 days to come, each like the only day known"


@pytest.mark.parametrize(
    ("why", "saved", "fault", "lost"),
    [
        ("preempt for prod-chat", TEN + timedelta(minutes=90), Fault.PLATFORM, 30),
        ("rank 0 lost its node", None, Fault.PLATFORM, 120),
        ("moves so that big fits", TEN + timedelta(minutes=119), Fault.PLATFORM, 1),
        ("rank 0 ended with exit status 1 (failure 1 of 3)", TEN + timedelta(minutes=60), Fault.JOB, 60),
        ("cancelled by lena", None, Fault.JOB, 120),
        ("succeeded", None, None, 0),
    ],
)
def test_what_an_attempt_lost_and_whose_fault_it_was(
    fleet: Fleet, why: str, saved: datetime | None, fault: Fault | None, lost: int
) -> None:
    end_attempt(fleet, why, saved)
    with fleet.database.read() as connection:
        found = losses(connection).get(("j", 1))
    if found is None:
        assert fault is None
    else:
        assert (found.fault, (found.until - found.since) // timedelta(minutes=1)) == (fault, lost)
