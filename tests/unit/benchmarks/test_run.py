"""A run of experiments: what is known is kept, what changed is measured, what breaks is said and stops nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks import inputs
from benchmarks.experiments import PROFILES, PROJECT, Experiment, experiments, works
from benchmarks.results import load, load_all, place
from benchmarks.run import Broken, run_all, spawn

from gpufleet.errors import Invalid

SMALL, LARGE = (Experiment("fleet", "gangs", name, ("gpufleet", "simulate", name)) for name in ("small", "large"))
Log = list[str]


def command(log: Log) -> Callable[[Experiment], dict[str, Any]]:
    """Writes down who was measured."""

    def measure(experiment: Experiment) -> dict[str, Any]:
        log.append(experiment.name)
        return {"found": len(log)}

    return measure


def measured(folder: Path, inputs_of: dict[str, str] | None = None) -> Log:
    log: Log = []
    told = inputs_of or {}
    run_all([SMALL, LARGE], folder, command(log), lambda _: None, lambda e: told.get(e.name, "same"))
    return log


def test_a_second_run_measures_nothing(tmp_path: Path) -> None:
    assert measured(tmp_path) == ["small", "large"] and measured(tmp_path) == []


def test_only_what_changed_is_measured_again(tmp_path: Path) -> None:
    measured(tmp_path)
    assert measured(tmp_path, {"large": "changed"}) == ["large"]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    measured(tmp_path)
    place(tmp_path, LARGE).unlink()
    assert measured(tmp_path) == ["large"]


@pytest.mark.parametrize("text", ["", '{"label": "fle', '{"label": "of another version"}'])
def test_a_result_that_cannot_be_read_is_measured_again(text: str, tmp_path: Path) -> None:
    measured(tmp_path)
    place(tmp_path, SMALL).write_text(text)
    assert load(tmp_path, SMALL) is None and measured(tmp_path) == ["small"]


def test_one_that_breaks_is_said_and_the_others_are_measured(tmp_path: Path) -> None:
    def breaks(experiment: Experiment) -> dict[str, Any]:
        if experiment is SMALL:
            raise Broken("it ended with status 2.")
        return {}

    done, broken = run_all([SMALL, LARGE], tmp_path, breaks, lambda _: None, lambda _: "same")
    assert broken == ["fleet.gangs.small was not measured: it ended with status 2."]
    assert list(done) == list(load_all(tmp_path, [SMALL, LARGE])) == ["fleet.gangs.large"]


def test_a_command_that_refuses_is_broken() -> None:
    with pytest.raises(Broken, match="status 2"):
        spawn(Experiment("fleet", "", "", ("gpufleet", "simulate", "fleet", "--spec", "none.yaml", "--policy", "x")))


# ---------------------------------------------------------------- what a result depends on


def world(root: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A project of three modules, one table and one spec with a data file."""
    for name, text in {
        "include/gpufleet/__init__.py": "",
        "include/gpufleet/door.py": "def run():\n    from gpufleet.rooms import inner\n",
        "include/gpufleet/rooms/__init__.py": "",
        "include/gpufleet/rooms/inner.py": "X = 1\n",
        "include/gpufleet/rooms/models.json": "{}",
        "include/gpufleet/elsewhere.py": "Y = 1\n",
        "benchmarks/specs/a.yaml": "durations: ../data/d.csv\n",
        "benchmarks/data/d.csv": "1\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(inputs, "PROJECT", root)
    monkeypatch.setattr(inputs, "ROOTS", {"gpufleet": root / "include" / "gpufleet"})
    monkeypatch.setattr(inputs, "DOORS", {"simulate": "gpufleet.door"})
    return Experiment("fleet", "g", "n", ("gpufleet", "simulate", "--spec", "benchmarks/specs/a.yaml"))


DEPENDS = {
    "the door": ("include/gpufleet/door.py", True),
    "a module that a function of it imports": ("include/gpufleet/rooms/inner.py", True),
    "the package around that": ("include/gpufleet/rooms/__init__.py", True),
    "the table beside it": ("include/gpufleet/rooms/models.json", True),
    "the spec": ("benchmarks/specs/a.yaml", True),
    "the data of the spec": ("benchmarks/data/d.csv", True),
    "a module it never imports": ("include/gpufleet/elsewhere.py", False),
}


@pytest.mark.parametrize(("name", "matters"), DEPENDS.values(), ids=DEPENDS)
def test_a_result_depends_on(name: str, matters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = world(tmp_path, monkeypatch)
    before = inputs.digest(experiment)
    assert inputs.digest(experiment) == before
    path = tmp_path / name
    path.write_text(path.read_text() + "\n" * 2)
    assert (inputs.digest(experiment) != before) == matters


def test_a_replay_depends_on_the_engine_and_not_on_the_portal() -> None:
    found = {str(p.relative_to(PROJECT / "include" / "gpufleet")) for p in inputs.sources(inputs.DOORS["simulate"])}
    assert {"placement/worth.py", "scheduling/session.py", "simulation/openb/fgd.py", "units.py"} <= found
    assert not any(name.startswith(("portal/", "store/")) for name in found)


# ---------------------------------------------------------------- the list


@pytest.mark.parametrize("profile", PROFILES)
def test_every_file_that_an_experiment_names_is_there(profile: str) -> None:
    listed = experiments(profile)
    named = {word for e in listed for word in e.words if "/" in word}
    assert named and [word for word in named if not (PROJECT / word).is_file()] == []


def test_every_spec_is_run_by_a_profile() -> None:
    words = {word for profile in PROFILES for e in experiments(profile) for word in e.words}
    assert [
        p.name for p in (PROJECT / "benchmarks" / "specs").glob("*.yaml") if f"benchmarks/specs/{p.name}" not in words
    ] == []


def test_the_work_of_every_group_is_said_in_words() -> None:
    assert {e.group for profile in PROFILES for e in experiments(profile) if e.kind == "fleet"} == works().keys()


OTHERS = "openb: {workloads: [], runs: [], ceiling: {}}\nspeed: {}\n"
LISTS = {
    "a line without its spec": (OTHERS + "fleet: {policies: {a: b}, works: [{full: 1}]}\n", "spec"),
    "a file without fleets": (OTHERS, "fleet"),
    "a policy nobody knows": (OTHERS + "fleet: {policies: {}, works: [{spec: a, full: 1, only: [b]}]}\n", "b"),
    "the same line twice": (
        OTHERS + "fleet: {policies: {a: b}, works: [{spec: c, full: 1}, {spec: c, full: 2}]}\n",
        "twice",
    ),
    "no YAML": ("openb:\nNOTE\nfleet: {}\n", "is not YAML"),
}


@pytest.mark.parametrize(("text", "says"), LISTS.values(), ids=LISTS)
def test_lists_that_are_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "experiments.yaml"
    path.write_text(text)
    with pytest.raises(Invalid, match=says):
        experiments("full", path)


# ---------------------------------------------------------------- the command line

WORDS = {
    "no words": ([], "arguments are required: door"),
    "an unknown profile": (["run", "slow"], "known are full, quick"),
    "repeats of nothing": (["speed", "--repeats", "0"], "--repeats is at least 1"),
    "an option nobody knows": (["speed", "--fast"], "--fast"),
}


@pytest.mark.parametrize(("words", "says"), WORDS.values(), ids=WORDS)
def test_wrong_words_are_answered_with_a_sentence_and_status_2(words: list[str], says: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'include'}:{PROJECT}"}
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr and "Traceback" not in done.stderr
