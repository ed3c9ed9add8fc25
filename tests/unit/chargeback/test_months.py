"""Months in small: who bears which charge, budgets and where they are heading, an invoice held against the books."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from tests.charges import NANO, at, charge

from gpufleet.chargeback.budgets import Span, crossed, team_budget
from gpufleet.chargeback.losses import Fault, Loss, credits_for
from gpufleet.chargeback.month import MonthToDate, fold, month_statement
from gpufleet.chargeback.reconciliation import Books, Reconciliation, Verdict, machine_id, reconcile
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.invoice import InvoiceKind, InvoiceLine
from gpufleet.model.statement import Standing, Statement, TeamBudget

DAY = date(2026, 3, 10)


def stated(*charges: Charge, currency: str = "USD", **more: Any) -> Statement:
    about = MonthToDate(currency, date(2026, 3, 1), date(2026, 4, 1), Standing.ESTIMATED, 1)
    return month_statement(about, fold(charges, **more))


@pytest.mark.parametrize(
    ("kind", "team", "column"),
    [
        (ChargeKind.USE, "vision", "usage"),
        (ChargeKind.COMMITTED_USE, "vision", "commitment"),
        (ChargeKind.IDLE_SHARE, "vision", "idle"),
        (ChargeKind.UNUSED, "vision", "commitment"),
        (ChargeKind.SHARED, "vision", "shared"),
        (ChargeKind.ADJUSTMENT, "platform", "adjustment"),
        (ChargeKind.IDLE, "platform", "idle_cost"),
        (ChargeKind.UNUSED, "platform", "unused_cost"),
        (ChargeKind.PURCHASE, "vision", ""),
    ],
)
def test_each_kind_of_charge_has_its_column(kind: ChargeKind, team: str, column: str) -> None:
    found = stated(charge(kind=kind, team=team, cost=0 if kind is ChargeKind.PURCHASE else 3, hours=0))
    names = ("usage", "idle", "commitment", "shared", "credit", "adjustment")
    money = {name: sum(getattr(r, name) for r in found.rows) for name in names}
    money |= {"idle_cost": found.idle_cost, "unused_cost": found.unused_cost}
    assert {name: amount for name, amount in money.items() if amount} == ({column: 300} if column else {})


def test_three_days_of_a_third_are_rounded_once() -> None:
    days = [charge(f"2026-03-0{i}", cost_nano=100 * NANO // 3 + (i == 1)) for i in (1, 2, 3)]
    assert [row.usage for row in stated(*days).rows] == [3334, 3333, 3333]
    assert [row.usage for row in stated(*days, currency="JPY").rows] == [34, 33, 33]


def test_a_credit_that_cancels_everything_leaves_both_numbers_standing() -> None:
    found = stated(charge(cost=5), charge(cost=-5, kind=ChargeKind.CREDIT, hours=0))
    assert (found.total, found.rows[0].usage, found.rows[0].credit) == (0, 500, -500)


def test_what_was_lost_is_part_of_the_cost_and_given_back_by_the_share() -> None:
    used = charge(cost=6)  # 10:00 to 11:00
    loss = {("a", 1): Loss("a", 1, at(DAY, 10.75), at(DAY, 11), Fault.PLATFORM, "spot reclaim")}
    (row,) = stated(used, losses=loss).rows
    assert (row.usage, row.lost_cost, row.lost_hours) == (600, 150, 250_000)
    (back,) = credits_for([used], loss, Fraction(1, 2))
    assert (back.cost_nano, back.kind, back.note) == (
        -NANO * 3 // 4, ChargeKind.CREDIT, "work lost by the platform: spot reclaim",
    )  # fmt: skip


def test_a_forecast_takes_each_weekday_as_it_was_lately() -> None:
    begin, end, today = date(2026, 3, 1), date(2026, 4, 1), date(2026, 3, 15)
    known = [begin - timedelta(days=28) + timedelta(days=i) for i in range(42)]
    cost = {day: 100 * NANO for day in known if day.weekday() < 5}
    found = team_budget("vision", cost, Fraction(2100), Span(known[0], begin, today, end), 2)
    assert (found.actual, found.forecast) == (100_000, 220_000), "ten workdays so far, twelve to come"
    assert found.will_be_over and not found.is_over
    assert crossed(found, (40, 50, 100)) == (40,)
    assert crossed(TeamBudget("new", 1, 1), (1,)) == ()


# ---------------------------------------------------------------- reconciliation


def held_against(charges: list[Charge], lines: list[InvoiceLine], currency: str = "USD") -> Reconciliation:
    days = {DAY + timedelta(days=i): (at(DAY, 24 * i), at(DAY, 24 * i + 24)) for i in range(2)}
    books = Books("aws", currency, {"node-1": "i-0AAA"}, days, day_of=lambda t: t.astimezone(UTC).date())
    return reconcile(charges, lines, books)


def line(amount: str, resource: str = "i-0aaa", **more: Any) -> InvoiceLine:
    told = {"kind": InvoiceKind.USAGE, "currency": "USD", "start": datetime(2026, 3, 10, 10, tzinfo=UTC)} | more
    return InvoiceLine("aws", "INV1", resource, end=told["start"], amount=Decimal(amount), **told)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "adjusted"),
    [
        (4, "4.00", Verdict.MATCHED, 0),
        (4, "4.009", Verdict.MATCHED, 9_000_000),
        (4, "4.02", Verdict.PRICE, 20_000_000),
        (4, None, Verdict.OURS, -4 * NANO),
        (None, "4", Verdict.THEIRS, 4 * NANO),
    ],
)
def test_a_machine_day_is_matched_or_adjusted(
    ours: int | None, theirs: str | None, verdict: Verdict, adjusted: int
) -> None:
    charges = [] if ours is None else [charge(cost=ours, provider="aws")]
    found = held_against(charges, [] if theirs is None else [line(theirs)])
    assert [c.verdict for c in found.compared] == [verdict]
    assert sum(c.cost_nano for c in found.adjustments) == adjusted
    assert found.ours + adjusted == found.theirs


def test_two_halves_of_a_machine_are_one_and_other_clouds_are_not_looked_at() -> None:
    halves = [charge(cost=2, provider="aws"), charge(cost=1, provider="aws", kind=ChargeKind.IDLE, team="platform")]
    found = held_against([*halves, charge(cost=9, provider="gcp")], [line("1.5"), line("1.5")])
    assert (found.ours, found.theirs, found.adjustments) == (3 * NANO, 3 * NANO, ())


def test_what_no_machine_caused_is_adjusted_by_kind() -> None:
    found = held_against([], [line("1.9", "", kind=InvoiceKind.TAX), line("-2", "", kind=InvoiceKind.CREDIT)])
    assert found.beside == ((InvoiceKind.CREDIT, -2 * NANO), (InvoiceKind.TAX, 1_900_000_000))
    assert [(c.team, c.note, c.cost_nano) for c in found.adjustments] == [
        ("platform", "aws invoice: credit", -2 * NANO),
        ("platform", "aws invoice: tax", 1_900_000_000),
    ]


def test_currencies_are_never_added() -> None:
    with pytest.raises(Invalid, match="a line in EUR and our books are in USD"):
        held_against([], [line("1", currency="EUR")])


def test_a_day_outside_the_invoice_is_not_looked_at() -> None:
    late = datetime(2026, 3, 20, tzinfo=UTC)
    found = held_against([charge("2026-03-20", provider="aws")], [line("7", start=late)])
    assert (found.compared, found.adjustments, found.theirs) == ((), (), 0)


@pytest.mark.parametrize(
    ("resource", "machine"),
    [
        ("i-0AAA", "i-0aaa"),
        ("arn:aws:ec2:us-east-1:1:instance/i-0aaa", "i-0aaa"),
        ("//compute.googleapis.com/projects/p/zones/z/instances/a3-1", "a3-1"),
        ("/subscriptions/s/providers/Microsoft.Compute/virtualMachines/ND96-1/", "nd96-1"),
    ],
)
def test_a_machine_is_known_by_the_last_part_of_its_name(resource: str, machine: str) -> None:
    assert machine_id(resource) == machine
