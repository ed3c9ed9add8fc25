"""Results on disk: one JSON file per experiment and profile under `benchmarks/out`, which git does not keep."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments import PROJECT, Experiment

OUT: Final = PROJECT / "benchmarks" / "out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one experiment printed, and under what circumstances."""

    label: str
    command: str
    inputs: str
    """Digest of sources, data and arguments (inputs.py)."""
    day: str
    """ISO date of the measurement."""
    seconds: float
    """Processor time it took."""
    fixed_work: float
    """Processor seconds of the fixed piece of work just before: how fast the machine was."""
    result: dict[str, Any]


def place(folder: Path, experiment: Experiment) -> Path:
    return folder / f"{experiment.label}.json"


def load(folder: Path, experiment: Experiment) -> Outcome | None:
    """What was saved, if anything was and it can be read."""
    path = place(folder, experiment)
    if not path.is_file():
        return None
    try:
        return Outcome(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None  # half written, or by another version of this program: it is measured again


def save(folder: Path, experiment: Experiment, outcome: Outcome) -> None:
    """Whole or not at all, so that an interrupted run leaves nothing half written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = place(folder, experiment)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    draft.replace(path)


def load_all(folder: Path, listed: Iterable[Experiment]) -> dict[str, Outcome]:
    """By label, those that are there."""
    found = ((e.label, load(folder, e)) for e in listed)
    return {label: outcome for label, outcome in found if outcome is not None}
