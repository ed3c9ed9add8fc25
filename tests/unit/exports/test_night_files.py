"""What finance opens in the morning: workbook, journal, summaries and pages say what the statement says."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import openpyxl
import pytest
from tests.money_stories import TEN, month_of_everything

from gpufleet.chargeback.finance import ACCOUNTS
from gpufleet.chargeback.month import MonthToDate, fold, month_statement
from gpufleet.errors import Invalid
from gpufleet.exports.journal import bookings, journal_csv
from gpufleet.exports.pages import index_page, team_page
from gpufleet.exports.summaries import LEVELS, summary_csv
from gpufleet.exports.workbook import write_workbook
from gpufleet.model.statement import Standing, Statement, TeamBudget, money


def statement() -> Statement:
    about = MonthToDate("USD", date(2026, 3, 1), date(2026, 3, 12), Standing.PROVISIONAL, 9, TEN)
    return month_statement(about, fold(month_of_everything()), (TeamBudget("vision", 20_000, 70_000, 50_000),))


FOUND = statement()
TOTAL = Decimal(money(FOUND.total, 2))


class TestWorkbook:
    @pytest.fixture(scope="class")
    def path(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("book") / "a.xlsx"
        write_workbook(path, FOUND, [("Price", "everything", "3")])
        return path

    def test_its_sheets_and_its_total(self, path: Path) -> None:
        book = openpyxl.load_workbook(path, data_only=True)
        assert book.sheetnames == [
            "Summary",
            "Teams",
            "Projects",
            "Jobs",
            "Daily",
            "Idle & commitments",
            "Rates",
            "Notes",
        ]
        facts = {row[0].value: row[1].value for row in book["Summary"].iter_rows(max_col=2) if row[0].value}
        assert Decimal(str(facts["Total"])) == TOTAL

    @pytest.mark.parametrize("sheet", ["Teams", "Projects", "Jobs", "Daily"])
    def test_every_sheet_adds_up_by_its_own_formulas(self, path: Path, sheet: str) -> None:
        shown, formulas = (openpyxl.load_workbook(path, data_only=only)[sheet] for only in (True, False))
        last = shown.max_row
        column = shown.max_column
        assert (
            str(formulas.cell(last, column).value)
            == f"=SUM({shown.cell(1, column).column_letter}2:{shown.cell(1, column).column_letter}{last - 1})"
        )
        cells = [shown.cell(row, column).value for row in range(2, last)]
        assert all(isinstance(cell, int | float) for cell in cells)
        assert round(sum(cells), 2) == round(shown.cell(last, column).value, 2)

    def test_days_are_dates_and_names_are_never_formulas(self, tmp_path: Path) -> None:
        rows = tuple(replace(row, team="=1+1", project="@x") for row in FOUND.rows)
        write_workbook(tmp_path / "b.xlsx", replace(FOUND, rows=rows))
        book = openpyxl.load_workbook(tmp_path / "b.xlsx")
        cell = book["Teams"].cell(2, 1)
        assert (cell.value, cell.data_type) == ("=1+1", "s")
        assert book["Daily"].cell(2, 1).is_date

    def test_the_same_statement_gives_the_same_bytes(self, path: Path, tmp_path: Path) -> None:
        write_workbook(tmp_path / "again.xlsx", FOUND, [("Price", "everything", "3")])
        assert (tmp_path / "again.xlsx").read_bytes() == path.read_bytes()

    def test_a_month_in_which_nothing_ran_has_a_workbook_too(self, tmp_path: Path) -> None:
        write_workbook(tmp_path / "none.xlsx", replace(FOUND, rows=()))
        assert openpyxl.load_workbook(tmp_path / "none.xlsx")["Teams"].cell(2, 1).value == "Total"


class TestJournal:
    def test_debits_are_credits_and_both_are_the_total(self) -> None:
        lines = bookings(FOUND, ACCOUNTS, {"vision": "4711"}, "9000")
        told = list(csv.DictReader(io.StringIO(journal_csv(FOUND, lines))))
        debit, credit = (sum(Decimal(line[side]) for line in told) for side in ("debit", "credit"))
        assert debit == credit and {line["cost_centre"] for line in told} == {"4711", "9000"}
        cleared = [line for line in told if line["account"] == "gpu-clearing"]
        assert Decimal(cleared[0]["credit"]) == TOTAL and {line["document_date"] for line in told} == {"2026-03-11"}

    def test_a_credit_stands_on_the_other_side(self) -> None:
        rows = tuple(replace(row, credit=-100) for row in FOUND.rows[:1])
        lines = bookings(replace(FOUND, rows=rows), ACCOUNTS, {}, "9000")
        assert [(line.debit, line.credit) for line in lines if line.account == "gpu-credits"] == [(0, 100)]

    def test_a_team_without_a_cost_centre_is_not_booked_to_nobody(self) -> None:
        with pytest.raises(Invalid, match="team 'nlp' has no cost centre: name it under cost_centres"):
            bookings(FOUND, ACCOUNTS, {"vision": "4711", "platform": "1"}, "")


@pytest.mark.parametrize("level", LEVELS)
def test_each_summary_s_total_is_the_sum_of_its_rows_and_the_statement_s(level: str) -> None:
    rows = list(csv.DictReader(io.StringIO(summary_csv(FOUND, level))))
    first = LEVELS[level][0]
    for column in ("gpu_hours", "usage", "idle", "commitment", "shared", "credit", "adjustment", "total"):
        parts = sum(Decimal(row[column]) for row in rows if row[first] != "total")
        assert parts == Decimal(rows[-1][column])
    assert (rows[-1][first], Decimal(rows[-1]["total"])) == ("total", TOTAL)


class Words(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


class TestPages:
    def test_a_team_s_page_says_its_total_and_draws_its_days(self) -> None:
        page = Words(team_page(FOUND, "vision"))
        total = sum(row.total for row in FOUND.rows if row.team == "vision")
        assert f"{Decimal(money(total, 2)):,}" in page.words
        assert page.tags.count("svg") == 2 and "rect" in page.tags and "polyline" in page.tags
        assert "script" not in page.tags and "link" not in page.tags and "img" not in page.tags
        assert any("will cost more than its budget" in word for word in page.words)

    def test_the_index_links_every_team_and_adds_up(self) -> None:
        page = Words(index_page(FOUND, {"focus.csv": "rows"}, {row.team: f"{row.team}.html" for row in FOUND.rows}))
        assert f"{TOTAL:,}" in page.words and {"nlp", "vision"} <= set(page.words)

    def test_names_cannot_become_markup(self) -> None:
        rows = tuple(replace(row, team="vision", job="<script>alert(1)</script>", project="<b>") for row in FOUND.rows)
        page = team_page(replace(FOUND, rows=rows), "vision")
        assert "<script" not in page and "&lt;script&gt;" in page and "<b>seg" not in page

    def test_without_a_budget_there_is_no_line_for_it(self) -> None:
        assert Words(team_page(replace(FOUND, budgets=()), "vision")).tags.count("svg") == 1
