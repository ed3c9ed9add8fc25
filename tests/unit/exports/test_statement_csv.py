"""The CSV of a day: stable columns, sums that agree with the answer, replaced in one step."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpufleet.exports import statement_csv as exported
from gpufleet.exports.statement_csv import COLUMNS, statement_csv, write_statement


def line(team: str, project: str) -> dict[str, str]:
    costs = {"usage_cost": "2.00", "idle_cost": "0.10", "commitment_cost": "0.20", "shared_cost": "0.30"}
    hours = {"gpu_hours": "1.500000", "over_quota_gpu_hours": "0.500000"}
    return {"team": team, "project": project, **hours, **costs, "total": "2.60"}


ANSWER: dict[str, Any] = {
    "day": "2026-03-10",
    "state": "provisional",
    "currency": "USD",
    "lines": [line("nlp", "chat"), line("vision", "")],
    "idle": {"gpu_hours": "3.000000", "cost": "6.00"},
    "unused_commitment": {"gpu_hours": "1.000000", "cost": "0.80"},
    "total": "12.00",
    "quarantined": [],
}


def rows(answer: dict[str, Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(statement_csv(answer))))


def test_the_columns_are_those_others_rely_on() -> None:
    assert ",".join(COLUMNS) == (
        "day,team,project,gpu_hours,over_quota_gpu_hours,usage_cost,idle_cost,commitment_cost,shared_cost,total,currency,state"
    )
    assert statement_csv(ANSWER).splitlines()[0] == ",".join(COLUMNS)


def test_the_column_total_is_the_total_and_every_row_adds_up() -> None:
    found = rows(ANSWER)
    assert sum(Decimal(r["total"]) for r in found) == Decimal(ANSWER["total"])
    for row in found:
        costs = (row[c] for c in ("usage_cost", "idle_cost", "commitment_cost", "shared_cost"))
        assert sum(map(Decimal, costs)) == Decimal(row["total"])
    assert [r["project"] for r in found] == ["chat", "", "(idle)", "(unused commitment)"]


def test_a_currency_without_decimals_has_none_anywhere() -> None:
    idle, unused = {"gpu_hours": "1.000000", "cost": "7"}, {"gpu_hours": "0.000000", "cost": "0"}
    answer = ANSWER | {"lines": [], "idle": idle, "unused_commitment": unused}
    assert {r["usage_cost"] for r in rows(answer)} == {"0"}


def test_a_name_is_never_run_as_a_formula() -> None:
    found = rows(ANSWER | {"lines": [line("=cmd()", "@x")]})
    assert (found[0]["team"], found[0]["project"]) == ("'=cmd()", "'@x")


def test_a_name_with_a_comma_stays_one_cell() -> None:
    assert rows(ANSWER | {"lines": [line('a,"b"', "p")]})[0]["team"] == 'a,"b"'


def test_the_file_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    path = tmp_path / "exports" / "statement.csv"
    write_statement(path, ANSWER)
    first = path.read_bytes()
    write_statement(path, ANSWER)
    assert path.read_bytes() == first == statement_csv(ANSWER).encode()
    assert [p.name for p in path.parent.iterdir()] == ["statement.csv"]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "statement.csv"
    write_statement(path, ANSWER)
    first = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(exported.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_statement(path, ANSWER | {"lines": []})
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["statement.csv"]
