"""`gpufleet bill` as a user runs it on files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet.commands import money
from gpufleet.errors import Invalid

EVENTS = (
    '{"id":"a","at":"2026-03-10T10:00:00Z","event":"allocated","job":"j","attempt":1,"team":"vision","project":"seg","node":"n","gpu":0}\n'
    '{"id":"b","at":"2026-03-10T11:00:00Z","event":"released","job":"j","attempt":1,"node":"n","gpu":0}\n'
    '{"id":"c","at":"2026-03-10T11:00:00Z","event":"released","job":"k","attempt":1,"node":"n","gpu":0}\n'
)
RATES = 'version: 1\ncurrency: USD\nprices: [{per_gpu_hour: "3.00"}]\n'


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "events.jsonl").write_text(EVENTS)
    (tmp_path / "rates.yaml").write_text(RATES)
    return tmp_path / "events.jsonl", tmp_path / "rates.yaml"


def run(files: tuple[Path, Path], *more: str) -> subprocess.CompletedProcess[str]:
    given = ["--events", str(files[0]), "--rates", str(files[1]), "--from", "2026-03-10", "--to", "2026-03-11"]
    return subprocess.run(
        [sys.executable, "-m", "gpufleet", "bill", *given, *more], capture_output=True, text=True, timeout=60
    )


def test_one_document_and_nothing_else(files: tuple[Path, Path]) -> None:
    done = run(files, "--json", "--by", "team", "--exact")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = json.loads(done.stdout)["lines"]
    assert (line["team"], line["project"], line["total"]) == ("vision", None, "3.000000000")


def test_a_mistake_ends_with_status_2_and_one_sentence(files: tuple[Path, Path]) -> None:
    files[1].write_text(RATES + "curency: USD\n")
    done = run(files, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rates.yaml, line 4: curency: unknown key" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_gets_a_table(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert money.bill_files(*files, "2026-03-10", "2026-03-11", by="team,project", exact=False, as_json=False) == 0
    told = capsys.readouterr().out
    assert "vision               seg       1.000000" in told
    assert "total, USD" in told
    assert "set aside: c: released, but nothing was held there" in told


def test_every_charge_is_written_too_and_they_are_the_exact_bill(files: tuple[Path, Path], tmp_path: Path) -> None:
    written = tmp_path / "charges.csv"
    done = run(files, "--json", "--exact", "--charges", str(written))
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(written.open()))
    assert {row["day"] for row in rows} == {"2026-03-10"} and any(row["job"] for row in rows)
    assert Decimal(sum(int(row["cost_nano"]) for row in rows)).scaleb(-9) == Decimal(json.loads(done.stdout)["total"])


def test_charges_that_cannot_be_written_are_said_so(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(files, "--charges", str(tmp_path / "nowhere" / "charges.csv"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "charges.csv cannot be written: No such file or directory." in done.stderr


@pytest.mark.parametrize(
    ("start", "end", "by", "says"),
    [
        ("2026-03-11", "2026-03-10", "team", "must be before --to"),
        ("yesterday", "2026-03-10", "team", "--from: 'yesterday' is not a day"),
        ("2026-03-10", "2026-03-32", "team", "--to: '2026-03-32' is not a day"),
        ("2026-03-10", "2026-03-11", "job", "--by 'job' is not known"),
    ],
)
def test_a_wrong_option_is_named(files: tuple[Path, Path], start: str, end: str, by: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        money.bill_files(*files, start, end, by=by, exact=False, as_json=True)


def test_files_need_nothing_heavy() -> None:
    heavy = ("pydantic", "sqlalchemy", "rich", "numpy")
    code = f"import sys, gpufleet.commands.money; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
