"""The live verbs as a person runs them: real processes, real answers, honest exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleets import Played, played

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("GPUFLEET_", "AIRFLOW"))}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played(tmp_path_factory.mktemp("cli") / "home") as found:
        found.tick()
        yield found


def gpufleet(fleet: Played | None, *words: str, user: str = "ada") -> subprocess.CompletedProcess[str]:
    env = {**CLEAN, **(fleet.environment if fleet else {}), **({"GPUFLEET_USER": user} if user else {})}
    return subprocess.run(
        [sys.executable, "-m", "gpufleet", *words], env=env, capture_output=True, text=True, timeout=60
    )


def answer(fleet: Played, *words: str, user: str = "ada") -> Any:
    done = gpufleet(fleet, *words, "--json", user=user)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_job_from_submit_to_cancel(fleet: Played) -> None:
    made = answer(fleet, "submit", "--team", "vision", "--project", "digits", "--name", "walk", "--gpus", "2",
                  "--json", "--", "python", "-c", "import time; print('hello', flush=True); time.sleep(600)")  # fmt: skip
    job = made["job"]
    fleet.until(job, "running")
    assert [j["state"] for j in answer(fleet, "jobs")["jobs"] if j["job"] == job] == ["running"]
    assert answer(fleet, "status")["states"]["running"] == 1
    assert len(answer(fleet, "explain", "walk")["where"]) == 1
    assert answer(fleet, "priority", "walk", "70")["priority"] == 70
    assert answer(fleet, "logs", "walk")["lines"] == ["hello"]
    assert answer(fleet, "cancel", job)["job"] == job
    fleet.until(job, "cancelled")


def test_people_get_words_and_tables(fleet: Played) -> None:
    done = gpufleet(
        fleet,
        "submit",
        "--team",
        "vision",
        "--project",
        "digits",
        "--name",
        "big",
        "--pods",
        "5",
        "--gpus",
        "8",
        "--",
        "true",
    )
    assert "pending" in done.stdout
    told = gpufleet(fleet, "explain", "big").stdout
    assert "reason:" in told and "unblock:" in told
    assert "res" in gpufleet(fleet, "status").stdout or "n0" in gpufleet(fleet, "status").stdout
    assert "big" in gpufleet(fleet, "jobs").stdout
    assert "ok" in gpufleet(fleet, "doctor").stdout
    answer(fleet, "cancel", "big")


def test_the_live_fleet_says_why_a_job_waits_and_what_a_change_would_do(fleet: Played, tmp_path: Path) -> None:
    asked = ("--team", "vision", "--project", "digits", "--name", "vast", "--pods", "5", "--gpus", "8")
    job = answer(fleet, "submit", *asked, "--json", "--", "true")["job"]
    found = answer(fleet, "explain", job)["explanation"]
    assert found["options"] and found["unblock"] == found["options"][0]["detail"]
    assert [c["level"] for c in found["checks"] if not c["ok"]]
    (tmp_path / "change.yaml").write_text(f"version: 1\ncancel: [{job}]\n")
    changed = answer(fleet, "what-if", "--change", str(tmp_path / "change.yaml"))
    assert changed["cancelled"] == [job] and [w["job"] for w in changed["pending"]] == [job]
    told = gpufleet(fleet, "what-if", "--change", str(tmp_path / "change.yaml")).stdout
    assert "1 job is cancelled" in told.splitlines()[0]
    assert answer(fleet, "explain", job)["state"] == "pending", "nothing was changed"
    answer(fleet, "cancel", job)


REFUSED = {
    "no fleet": (None, ("status",), "set GPUFLEET_HOME"),
    "nobody": ("", ("cancel", "x"), "set GPUFLEET_USER"),
    "no such job": ("ada", ("explain", "nosuch"), "there is no job 'nosuch'"),
    "no GPUs": (
        "ada",
        ("submit", "--team", "vision", "--project", "digits", "--gpus", "0", "--", "true"),
        "gpus must be",
    ),
    "a stranger": ("lin", ("submit", "--team", "vision", "--project", "digits", "--", "true"), "'lin' is not a member"),
    "a priority too high": ("ada", ("priority", "x", "9999"), "priority must be from 0 to 1000"),
}


@pytest.mark.parametrize(("user", "words", "sentence"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_sentence_and_status_2(
    fleet: Played, user: str | None, words: tuple[str, ...], sentence: str
) -> None:
    done = gpufleet(None if user is None else fleet, *words, user=user or "")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_the_command_starts_fast() -> None:
    """0.3 s is promised; three tries, the best one counts, doubled for a busy machine."""
    best = min(_seconds("--version") for _ in range(3))
    assert best < 0.6


def _seconds(*words: str) -> float:
    began = time.monotonic()
    assert gpufleet(None, *words).returncode == 0
    return time.monotonic() - began
