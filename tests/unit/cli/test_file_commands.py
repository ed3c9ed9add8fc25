"""The verbs on files as a person runs them: they start fast, and a wrong call is one sentence."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("GPUFLEET_", "AIRFLOW"))}
FLEET = """
version: 1
at: 2026-01-01T00:00:00Z
nodes: [{name: n1, model: H100-80, gpus: 8}]
queues: [{name: a, deserved: {"*": 8}}]
pending: [{job: p, queue: a, pods: [{gpus: 16}]}]
"""
CHANGE = "version: 1\nadd_nodes: [{name: n2, model: H100-80, gpus: 16}]\n"

PROMISED = 0.5
"""Seconds for one node. Counted in processor time, for a busy machine lets a process wait; of three tries the best."""


def gpufleet(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpufleet", *words], env=CLEAN, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "change.yaml").write_text(CHANGE)
    return str(tmp_path / "fleet.yaml"), str(tmp_path / "change.yaml")


def test_what_if_answers_on_files_wherever_its_options_stand(files: tuple[str, str]) -> None:
    fleet, change = files
    for words in ((fleet, "--change", change), ("--change", change, fleet), ("--json", f"--change={change}", fleet)):
        done = gpufleet("what-if", *words)
        assert done.returncode == 0, done.stderr
        assert "1 more job starts" in done.stdout
    assert json.loads(gpufleet("what-if", fleet, "--change", change, "--json").stdout)["starts"][0]["job"] == "p"


def test_what_if_without_a_scenario_asks_for_a_fleet(files: tuple[str, str]) -> None:
    done = gpufleet("what-if", "--change", files[1])
    assert (done.returncode, done.stdout) == (2, "") and "GPUFLEET_HOME" in done.stderr


def test_what_if_has_help() -> None:
    assert "--change" in gpufleet("what-if", "--help").stdout


@pytest.mark.parametrize("verb", ["plan", "explain", "what-if"])
def test_verbs_on_files_start_fast(verb: str, files: tuple[str, str]) -> None:
    more = {"plan": (), "explain": ("--job", "p"), "what-if": ("--change", files[1])}[verb]
    assert min(_seconds(verb, files[0], *more) for _ in range(3)) < 1.5 * PROMISED


def _seconds(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert gpufleet(*words).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_wrong_files_are_one_sentence_and_status_two(files: tuple[str, str], tmp_path: Path) -> None:
    for words in (
        (files[0], "--change", "gone.yaml"),
        ("gone.yaml", "--change", files[1]),
        (files[0], "--change", files[0]),
    ):
        done = gpufleet("what-if", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
