"""docs/break-even.md: its run prints what it shows, its table says what the examples give, its keys are the file's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.commands import procurement
from gpufleet.formats import ownership

PROJECT = Path(__file__).parents[3]
EXAMPLES = PROJECT / "config" / "examples" / "break-even"
DOCUMENT = (PROJECT / "docs" / "break-even.md").read_text()
RUNS = re.findall(r"<!-- run: gpufleet break-even --input (\S+) -->\n```text\n(.*?)```", DOCUMENT, re.S)
ROWS = re.findall(r"^\| `(\S+\.yaml)` \| .*? \| (\S+) \| (\w+) \| (.*?) \| (.*?) \|$", DOCUMENT, re.M)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(path: Path, *, as_json: bool) -> str:
        assert procurement.break_even(path, chart=None, as_json=as_json) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(("path", "answer"), RUNS, ids=[path for path, _ in RUNS])
def test_the_run_prints_what_the_page_shows(printed: Callable[..., str], path: str, answer: str) -> None:
    assert printed(PROJECT / path, as_json=False) == answer


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_table_says_what_the_examples_give(printed: Callable[..., str], row: tuple[str, ...]) -> None:
    name, months, holds, *needs = row
    found = json.loads(printed(EXAMPLES / name, as_json=True))
    assert (found["break_even_months"] or "never") == months
    assert found["claim"]["holds"] == (holds == "holds")
    told = [found["claim"]["utilisation_for"][month] for month in ("12", "18")]
    assert ["-" if t is None else f"{100 * float(t):.1f} %" for t in told] == needs


def test_every_example_is_in_the_table_and_the_page_has_a_run() -> None:
    assert RUNS and {row[0] for row in ROWS} == {path.name for path in EXAMPLES.glob("*.yaml")}


def test_every_key_of_the_file_is_explained() -> None:
    table = DOCUMENT.split("## The file")[1]
    known = {*ownership.KEYS, *ownership.HARDWARE, *ownership.RUNNING, *ownership.CLOUD, *ownership.PART}
    named = {word for words in re.findall(r"`([a-z_.]+)`", table) for word in words.split(".")}
    assert known - named == set()
