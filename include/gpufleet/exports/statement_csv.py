"""A day's statement as CSV for finance: stable columns, one row for each line, idle and unused commitments as rows.

So every column adds up to what the answer says: `total` to its total, `gpu_hours` of lines and idle to the hours the
nodes were up.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpufleet.exports.spreadsheet_safe import tame

COLUMNS: Final = (
    "day", "team", "project", "gpu_hours", "over_quota_gpu_hours", "usage_cost", "idle_cost", "commitment_cost",
    "shared_cost", "total", "currency", "state",
)  # fmt: skip
"""Others read these by name and by place: add at the end, never rename or drop."""

IDLE: Final = "(idle)"
UNUSED: Final = "(unused commitment)"


def statement_csv(answer: Mapping[str, Any]) -> str:
    """The rows of a settled day, as `settle_day` answers."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in _rows(answer):
        same = {"day": answer["day"], "currency": answer["currency"], "state": answer["state"]}
        writer.writerow({column: tame(value) for column, value in {**row, **same}.items()})
    return out.getvalue()


def write_statement(path: Path, answer: Mapping[str, Any]) -> None:
    """Replace the file in one step, so nobody ever reads half a statement."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            os.fchmod(handle, 0o644)
            out.write(statement_csv(answer))
            out.flush()
            os.fsync(handle)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _rows(answer: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    yield from answer["lines"]
    for name, column, part in (
        (IDLE, "idle_cost", answer["idle"]),
        (UNUSED, "commitment_cost", answer["unused_commitment"]),
    ):
        none = _zero(part["cost"])
        costs = dict.fromkeys(("usage_cost", "idle_cost", "commitment_cost", "shared_cost"), none)
        hours = {"gpu_hours": part["gpu_hours"], "over_quota_gpu_hours": _zero(part["gpu_hours"])}
        yield {"team": "", "project": name, **hours, **costs, column: part["cost"], "total": part["cost"]}


def _zero(number: str) -> str:
    """Nothing, with as many decimals."""
    _, point, decimals = number.partition(".")
    return "0" + point + "0" * len(decimals)
