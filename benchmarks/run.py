"""Runs what is not known yet: an experiment whose inputs are unchanged keeps its result."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.experiments import PROJECT, Experiment
from benchmarks.inputs import digest
from benchmarks.results import Outcome, load, save
from benchmarks.speed import unit

Command = Callable[[Experiment], dict[str, Any]]


class Broken(Exception):
    """An experiment that ended badly; the message is for people."""


def run_all(
    listed: list[Experiment],
    folder: Path,
    command: Command | None = None,
    tell: Callable[[str], None] = print,
    inputs: Callable[[Experiment], str] = digest,
) -> tuple[dict[str, Outcome], list[str]]:
    """Outcomes by label, and a sentence for each experiment that broke; the others are run all the same."""
    done: dict[str, Outcome] = {}
    broken: list[str] = []
    for number, experiment in enumerate(listed, 1):
        known, wanted = load(folder, experiment), inputs(experiment)
        where = f"[{number}/{len(listed)}] {experiment.label}"
        if known is not None and known.inputs == wanted:
            tell(f"{where}: inputs unchanged since {known.day}, kept")
            done[experiment.label] = known
            continue
        tell(where)
        try:
            done[experiment.label] = _measured(experiment, wanted, command or spawn)
        except Broken as why:
            broken.append(f"{experiment.label} was not measured: {why}")
            continue
        save(folder, experiment, done[experiment.label])
        tell(f"{where}: {done[experiment.label].seconds:.0f} processor seconds")
    return done, broken


def _measured(experiment: Experiment, inputs: str, command: Command) -> Outcome:
    speed, before = unit(), _children()
    result = command(experiment)
    words = " ".join(experiment.words)
    return Outcome(
        experiment.label, words, inputs, datetime.now(UTC).date().isoformat(), _children() - before, speed, result
    )


def _children() -> float:
    """Processor seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spawn(experiment: Experiment) -> dict[str, Any]:
    """The command's JSON document; its progress goes to our stderr."""
    paths = [str(PROJECT / "include"), str(PROJECT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", *experiment.words]
    ended = subprocess.run(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        raise Broken(f"'{' '.join(experiment.words)}' ended with status {ended.returncode}.")
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise Broken(f"'{' '.join(experiment.words)}' printed no JSON document.") from None
    return found
