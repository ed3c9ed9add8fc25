"""The file of `gpufleet simulate fleet`: what fleet, what work, how fast; every key has a stated default."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, read, read_text
from gpufleet.simulation.fleet.spec import Faults, Fleet, Serving, Spec, Speed, Training

KEYS = (
    "version",
    "fleet",
    "jobs",
    "load",
    "training_share",
    "durations",
    "training",
    "serving",
    "speed",
    "faults",
    "warmup",
    "moves",
    "teams",
    "release",
)


def load_spec(path: Path) -> Spec:
    """The experiment of a file; `durations` is a CSV (or gzip) beside it with run_time_s and num_gpus.

    Raises Invalid that names file, line and key.
    """
    fields = read(read_text(path), str(path)).fields(KEYS)
    if fields["version"].integer() != 1:
        raise fields["version"].wrong(f"version {fields['version'].shown} is not known; this is version 1.")
    share = float(fields.get("training_share", Cell.number, 1))
    if not 0 <= share <= 1:
        raise fields["training_share"].wrong("a share is from 0 to 1.")
    spec = Spec(
        fleet=fields.get("fleet", lambda c: Fleet(**_values(c, Fleet())), Fleet()),
        jobs=fields.get("jobs", lambda c: c.at_most(1_000_000, 1), Spec().jobs),
        load=float(fields.get("load", Cell.number, Spec().load)),
        training_share=share,
        training=fields.get("training", lambda c: Training(**_values(c, Training())), Training()),
        serving=fields.get("serving", lambda c: Serving(**_values(c, Serving())), Serving()),
        speed=fields.get("speed", lambda c: Speed(**_values(c, Speed())), Speed()),
        faults=fields.get("faults", lambda c: Faults(**_values(c, Faults())), Faults()),
        warmup=fields.get("warmup", lambda c: c.span().total_seconds(), 0.0),
        teams=fields.get("teams", lambda c: tuple(_team(r) for r in c.cells()), ()),
        moves=fields.get("moves", lambda c: float(c.number()), None),
        release=fields.get("release", lambda c: c.span().total_seconds(), None),
        pairs=fields.get("durations", lambda c: _pairs(path.parent / c.text(), c), ()),
    )
    if share > 0 and not spec.pairs:
        raise Invalid(f"{path}: durations: training needs a file of (run_time_s, num_gpus).")
    if share < 1 and not spec.serving.needs:
        raise Invalid(f"{path}: serving.needs: with training_share {share:g} the rest must be said.")
    if spec.load <= 0:
        raise fields["load"].wrong("a load is above 0.")
    for wrong in _impossible(spec):
        raise Invalid(f"{path}: {wrong}")
    return spec


def _impossible(spec: Spec) -> Iterator[str]:
    """What each value alone may be, but not here."""
    parts = {"training.checkpointable": spec.training.checkpointable, "faults.noticed": spec.faults.noticed}
    yield from (f"{key}: a part is from 0 to 1, not {part:g}." for key, part in parts.items() if part > 1)
    factors = {"speed.leaf": spec.speed.leaf, "speed.scattered": spec.speed.scattered}
    yield from (f"{key}: a slowdown is at least 1, not {factor:g}." for key, factor in factors.items() if factor < 1)
    deserved = sum(gpus for _, gpus in spec.teams)
    if deserved > spec.fleet.total:
        yield f"teams: they deserve {deserved:g} GPUs together, the fleet has {spec.fleet.total}."
    if spec.teams and not sum(part for part, _ in spec.teams):
        yield "teams: no team has any part of the jobs."


def _team(cell: Cell) -> tuple[float, float]:
    """(part of the training jobs, GPUs deserved)."""
    row = [float(c.number()) for c in cell.cells()]
    if len(row) != 2:
        raise cell.wrong("a team is two numbers: its part of the jobs, and the GPUs it deserves.")
    return row[0], row[1]


def durations_of(path: Path) -> list[Path]:
    """The file of durations that a spec (which has been read without a fault) names, if it does."""
    fields = read(read_text(path), str(path)).fields(KEYS)
    return [path.parent / fields["durations"].text()] if "durations" in fields else []


def _values(cell: Cell, default: Any) -> dict[str, Any]:
    """Keys of a part, read as what their default is; lists are lists of rows of numbers."""
    kinds = {f.name: getattr(default, f.name) for f in fields_of(default)}
    fields = cell.fields(tuple(kinds))
    return {key: _value(fields[key], kinds[key]) for key in kinds if key in fields}


def _value(cell: Cell, default: Any) -> Any:
    match default:
        case bool():
            return cell.boolean()
        case int():
            return cell.at_most(1_000_000, 1)
        case float():
            return float(cell.number())
        case str():
            return cell.text()
        case _:
            return tuple(_row(c) for c in cell.cells())


def _row(cell: Cell) -> Any:
    """A number, or a row of numbers; whole numbers stay whole."""
    if cell.tag != "list":
        found = cell.number()
        return int(found) if found.denominator == 1 else float(found)
    return tuple(_row(c) for c in cell.cells())


def _pairs(path: Path, cell: Cell) -> tuple[tuple[float, int], ...]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        return tuple((float(row["run_time_s"]), int(row["num_gpus"])) for row in rows)
    except (OSError, EOFError, UnicodeDecodeError) as why:
        raise cell.wrong(f"cannot be read: {why}.") from None
    except (KeyError, ValueError, TypeError):
        raise cell.wrong("needs columns run_time_s (seconds) and num_gpus in every row.") from None
