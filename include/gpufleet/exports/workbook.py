"""A month's statement as a workbook: typed numbers, totals as formulas with their values, charts; the same bytes again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from gpufleet.exports.summaries import LEVELS, by
from gpufleet.model.statement import MONEY, Statement, StatementRow

CREATED: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Fixed, so that the same statement gives the same bytes."""
HEADS: Final = {"team": "Team", "project": "Project", "job": "Job", "day": "Day"}
TITLES: Final = {"team": "Teams", "project": "Projects", "job": "Jobs", "day": "Daily"}
NOTES: Final = (
    ("GPU-hours", "a GPU held for an hour; of a MIG slice or a share its part"),
    ("Over-quota", "of these, what was beyond what the team is guaranteed"),
    ("Usage", "at list price, with the over-quota factor"),
    ("Idle", "the cost of idle GPUs that the team bears by the rates' policy"),
    ("Commitment", "use that reservations covered, and the team's own unused part, at their amortised rate"),
    ("Shared", "costs that no GPU caused: storage, egress, the platform"),
    ("Credit", "given back for work that the platform itself lost"),
    ("Adjustment", "what a cloud's invoice says beyond what we know"),
    ("Platform", "idle GPUs and unused commitments that no team bears"),
)


@dataclass(frozen=True, slots=True)
class _Styles:
    head: Any
    money: Any
    hours: Any
    day: Any
    total: Any
    total_hours: Any
    title: Any


def write_workbook(path: Path, found: Statement, rates_rows: Sequence[tuple[str, str, str]] = ()) -> None:
    """`rates_rows` are (what, which, amount) for the sheet of rates."""
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"title": f"GPU chargeback {found.begin:%Y-%m}", "created": CREATED})
    styles = _styles(book, found.decimals)
    _summary(book, styles, found)
    for level, keys in LEVELS.items():
        _level(book, styles, found, level, keys)
    _kept(book, styles, found)
    _words(book, styles, "Rates", ("What", "Which", "Amount"), rates_rows)
    _words(book, styles, "Notes", ("Column", "What it is"), NOTES)
    book.close()


def _styles(book: Any, decimals: int) -> _Styles:
    amount = "#,##0" + ("." + "0" * decimals if decimals else "")
    bold = {"bold": True, "top": 1}
    return _Styles(
        head=book.add_format({"bold": True, "bg_color": "#E6EEF2", "bottom": 1, "text_wrap": True, "valign": "top"}),
        money=book.add_format({"num_format": amount}),
        hours=book.add_format({"num_format": "#,##0.00"}),
        day=book.add_format({"num_format": "yyyy-mm-dd", "align": "left"}),
        total=book.add_format({**bold, "num_format": amount}),
        total_hours=book.add_format({**bold, "num_format": "#,##0.00"}),
        title=book.add_format({"bold": True, "font_size": 16}),
    )


def _summary(book: Any, styles: _Styles, found: Statement) -> None:
    sheet = book.add_worksheet("Summary")
    sheet.set_column(0, 0, 34)
    sheet.set_column(1, 1, 18)
    sheet.write_string(0, 0, f"GPU chargeback, {found.begin:%B %Y}", styles.title)
    unit = 10**found.decimals
    facts: list[tuple[str, Any, Any]] = [
        ("From", found.begin, styles.day),
        ("Up to, without", found.end, styles.day),
        ("Standing", found.standing.value, None),
        ("Ledger revision", found.revision, None),
        ("Currency", found.currency, None),
        ("Teams", sum(row.total for row in found.rows) / unit, styles.money),
        ("Idle GPUs (platform)", found.idle_cost / unit, styles.money),
        ("Unused commitments (platform)", found.unused_cost / unit, styles.money),
        ("Total", found.total / unit, styles.total),
        ("GPU-hours held", sum(row.gpu_hours for row in found.rows) / 10**6, styles.hours),
        ("GPU-hours idle", found.idle_hours / 10**6, styles.hours),
    ]
    for n, (name, value, style) in enumerate(facts, 2):
        sheet.write_string(n, 0, name)
        _write(sheet, n, 1, value, style)
    _chart(book, sheet, found)


def _chart(book: Any, sheet: Any, found: Statement) -> None:
    """Cost of each team, stacked by kind, from the sheet of teams."""
    teams = len({row.team for row in found.rows})
    if not teams:
        return
    chart = book.add_chart({"type": "bar", "subtype": "stacked"})
    for i, name in enumerate(MONEY[:-1]):
        column = 3 + i
        chart.add_series(
            {
                "name": name.capitalize(),
                "categories": ["Teams", 1, 0, teams, 0],
                "values": ["Teams", 1, column, teams, column],
            }
        )
    chart.set_title({"name": f"Cost by team, {found.currency}", "name_font": {"size": 12}})
    chart.set_y_axis({"reverse": True})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 760, "height": max(280, 60 + 34 * teams)})
    sheet.insert_chart("D2", chart)


def _level(book: Any, styles: _Styles, found: Statement, level: str, keys: tuple[str, ...]) -> None:
    """A row for each key, and a total that adds them up: sums as formulas, with the value that a viewer shows."""
    sheet = book.add_worksheet(TITLES[level])
    head = [*(HEADS[k] for k in keys), "GPU-hours", "Over-quota GPU-hours", *(name.capitalize() for name in MONEY)]
    _head(sheet, styles, head, len(keys))
    groups = list(by(found, lambda row: tuple(str(getattr(row, k)) for k in keys)))
    for n, (key, rows) in enumerate(groups, 1):
        for i, (name, text) in enumerate(zip(keys, key, strict=True)):
            _write(
                sheet, n, i, date.fromisoformat(text) if name == "day" else text, styles.day if name == "day" else None
            )
        for i, (value, style) in enumerate(_numbers(styles, found, rows), len(keys)):
            sheet.write_number(n, i, value, style)
    last = len(groups)
    sheet.write_string(last + 1, 0, "Total", styles.total)
    for i, (value, style) in enumerate(_numbers(styles, found, list(found.rows)), len(keys)):
        letter = chr(ord("A") + i)
        bold = styles.total_hours if style is styles.hours else styles.total
        if last:
            sheet.write_formula(last + 1, i, f"=SUM({letter}2:{letter}{last + 1})", bold, value)
    sheet.autofilter(0, 0, max(last, 1), len(head) - 1)


def _numbers(styles: _Styles, found: Statement, rows: list[StatementRow]) -> list[tuple[float, Any]]:
    read: list[Callable[[StatementRow], int]] = [lambda r: r.gpu_hours, lambda r: r.over_quota_hours]
    held = [(sum(map(of, rows)) / 10**6, styles.hours) for of in read]
    unit = 10**found.decimals
    return [*held, *((sum(getattr(r, name) for r in rows) / unit, styles.money) for name in MONEY)]


def _kept(book: Any, styles: _Styles, found: Statement) -> None:
    sheet = book.add_worksheet("Idle & commitments")
    _head(sheet, styles, ["With the platform", "GPU-hours", f"Cost, {found.currency}"], 1)
    unit = 10**found.decimals
    kept = (
        ("Idle GPUs", found.idle_hours, found.idle_cost),
        ("Unused commitments", found.unused_hours, found.unused_cost),
    )
    for n, (name, held, cost) in enumerate(kept, 1):
        sheet.write_string(n, 0, name)
        sheet.write_number(n, 1, held / 10**6, styles.hours)
        sheet.write_number(n, 2, cost / unit, styles.money)
    sheet.write_string(3, 0, "Total", styles.total)
    sheet.write_formula(3, 1, "=SUM(B2:B3)", styles.total_hours, sum(held for _, held, _ in kept) / 10**6)
    sheet.write_formula(3, 2, "=SUM(C2:C3)", styles.total, sum(cost for _, _, cost in kept) / unit)


def _words(book: Any, styles: _Styles, name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    sheet = book.add_worksheet(name)
    _head(sheet, styles, list(head), len(head))
    sheet.set_column(1, 1, 90 if name == "Notes" else 40)
    for n, cells in enumerate(rows, 1):
        for i, cell in enumerate(cells):
            sheet.write_string(n, i, cell)


def _head(sheet: Any, styles: _Styles, head: list[str], keys: int) -> None:
    sheet.freeze_panes(1, keys if keys < len(head) else 0)
    sheet.set_column(0, max(0, keys - 1), 24)
    sheet.set_column(keys, len(head), 14)
    for i, name in enumerate(head):
        sheet.write_string(0, i, name, styles.head)


def _write(sheet: Any, row: int, column: int, value: Any, style: Any) -> None:
    """Text as text, whatever it begins with; dates and numbers as themselves."""
    if isinstance(value, str):
        sheet.write_string(row, column, value, style)
    elif isinstance(value, date):
        sheet.write_datetime(row, column, value, style)
    else:
        sheet.write_number(row, column, value, style)
