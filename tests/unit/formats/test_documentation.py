"""The examples of docs/formats.md, section 1: what the documentation shows is what the command prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpufleet.commands import offline
from gpufleet.formats.request import KEYS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", DOCUMENT, re.S))
RUNS = [
    run
    for run in re.findall(r"<!-- run: gpufleet (.*?) -->\n```json\n(.*?)```", DOCUMENT, re.S)
    if "scenario" in run[0]
]


def test_every_key_of_a_request_is_explained_and_no_other() -> None:
    table = (Path(__file__).parents[3] / "docs" / "formats-request.md").read_text()
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.M)
    assert sorted(key for cell in first_cells for key in re.findall(r"`(\w+)`", cell)) == sorted(KEYS)


@pytest.mark.parametrize(("command", "answer"), RUNS, ids=[command for command, _ in RUNS])
def test_example(
    command: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert offline.main(command.split()) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(answer)


def test_without_json_the_answer_is_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenario.yaml").write_text(FILES["scenario.yaml"])
    assert offline.plan(str(tmp_path / "scenario.yaml"), as_json=False) == 0
    out = capsys.readouterr().out
    assert "start train on x0" in out and "1. huge waits (too-large)" in out


def test_bad_input_is_one_sentence_on_stderr_and_status_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("version: 2\n")
    assert offline.plan(str(tmp_path / "bad.yaml"), as_json=True) == 2
    told = capsys.readouterr()
    assert not told.out and "bad.yaml, line 1: version" in told.err
