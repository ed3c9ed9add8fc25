"""An invoice held against the ledger's charges, on both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.charges import NANO, charge

from gpufleet.clock import ManualClock
from gpufleet.errors import Forbidden, Invalid
from gpufleet.model.tenancy import Member, Principal, Role, Team
from gpufleet.services.fleet import Fleet
from gpufleet.services.reconcile_invoice import reconcile_invoice
from gpufleet.services.show_month import month_view
from gpufleet.store import ledger, months, tenancy
from gpufleet.store.charges import put_charges
from gpufleet.store.database import Database

FINA = Principal("fina")
AWS = Path(__file__).parents[1] / "formats_money" / "invoices" / "aws.csv"
DAY = "2026-03-10"


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    """AWS machines on 10 March: one at the invoice's price, one dearer, one that the invoice does not know."""
    found = Fleet("test", tmp_path, database, {}, {}, ManualClock(datetime(2026, 4, 3, tzinfo=UTC)), "")
    team = Team("vision", "q", ("digits",), (Member("fina", Role.FINANCE), Member("lena", Role.LEAD)))
    charges = [
        charge(DAY, node="i-0aaa", cost=8, provider="aws"),
        charge(DAY, node="i-0bbb", cost=4, provider="aws"),
        charge(DAY, node="i-0ddd", cost=1, provider="aws"),
        charge(DAY, node="own-1", cost=50, provider="owned"),
    ]
    with database.write() as connection:
        ledger.put_rates(connection, {"version": 1, "currency": "USD", "prices": []}, found.clock.now())
        tenancy.replace_tenancy(connection, (team,), ())
        status: dict[str, Any] = {"revision": 1, "currency": "USD", "total_nano": 63 * NANO, "answer": {}}
        ledger.put_day(connection, DAY, [], state="estimated", published_at=found.clock.now(), **status)
        put_charges(connection, date.fromisoformat(DAY), charges)
    return found


def test_the_books_agree_with_the_invoice_to_the_last_digit(fleet: Fleet) -> None:
    report = reconcile_invoice(fleet, AWS, "aws", FINA)
    assert report["counts"] == {"matched": 1, "price": 1, "only-ours": 1, "only-theirs": 1}
    assert [(d["machine"], d["verdict"], d["difference_nano"]) for d in report["differences"]] == [
        ("i-0bbb", "price", -1_500_000_000),
        ("i-0ccc", "only-theirs", 1_250_000_000),
        ("i-0ddd", "only-ours", -NANO),
    ]
    assert (report["ours_nano"], report["theirs_nano"]) == (13 * NANO, 122_150_000_000)
    assert report["ours_nano"] + report["adjusted_nano"] == report["theirs_nano"]
    view = month_view(fleet, "2026-03")
    assert (view["standing"], view["total"]) == ("reconciled", 5000 + 12215)
    assert [r["provider"] for r in view["reconciliations"]] == ["aws"]


def test_the_same_invoice_again_changes_nothing(fleet: Fleet) -> None:
    first = reconcile_invoice(fleet, AWS, "aws", FINA)
    assert reconcile_invoice(fleet, AWS, "aws", FINA, "2026-03") == first
    assert month_view(fleet, "2026-03")["total"] == 5000 + 12215


def test_a_line_without_an_invoice_may_still_change_so_nothing_is_reconciled(fleet: Fleet, tmp_path: Path) -> None:
    early = tmp_path / "early.csv"
    early.write_text(AWS.read_text().replace("INV1", ""))
    assert not reconcile_invoice(fleet, early, "aws", FINA)["final"]
    assert month_view(fleet, "2026-03")["standing"] == "estimated"


@pytest.mark.parametrize(
    ("who", "month", "change", "error", "told"),
    [
        (Principal("lena"), None, ("", ""), Forbidden, "ask finance"),
        (FINA, "2026-04", ("", ""), Invalid, "has no line of 2026-04"),
        (FINA, None, ("2026-03-10", "2026-02-10"), Invalid, "speaks of 2026-02, 2026-03: name one with --month"),
        (FINA, None, (",USD,", ",EUR,"), Invalid, "a line in EUR and our books are in USD"),
    ],
)
def test_an_invoice_that_cannot_be_compared_is_refused_and_nothing_is_booked(
    fleet: Fleet, tmp_path: Path, who: Principal, month: str | None, change: tuple[str, str], error: Any, told: str
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(AWS.read_text().replace(*change) if change[0] else AWS.read_text())
    with pytest.raises(error, match=told):
        reconcile_invoice(fleet, file, "aws", who, month)
    with fleet.database.read() as connection:
        assert not list(months.booked(connection, date(2026, 1, 1), date(2027, 1, 1)))
