"""Charges as CSV: every field of `model.charge.Charge` under its own name, amounts in nano-units."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, date, datetime
from enum import Enum
from typing import IO, Any, Final

from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.charge import Charge

COLUMNS: Final = tuple(f.name for f in fields(Charge))


def write_charges(out: IO[str], charges: Iterable[Charge]) -> int:
    """A header and a row for each charge, in the order they come; returns how many."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for charge in charges:
        writer.writerow([_cell(getattr(charge, name)) for name in COLUMNS])
        count += 1
    return count


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | date):
        return str(value)
    return tame(value.value if isinstance(value, Enum) else value)
