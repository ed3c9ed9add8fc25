"""The recorded spot market: a CSV of launch counts and a JSON of prices; every error names file, line and what is wrong."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, read, read_text, unique
from gpufleet.simulation.spot.market import Trace, ZonePrice

NOT_ZONES = ("scheduled_at", "duration_sec")
"""Columns that tell when and for how long was asked; every other column is a zone."""
COUNT = re.compile(r"\d{1,9}", re.ASCII)


def load_trace(path: Path) -> Trace:
    """One row for every tick of ten minutes, one column for every zone: how many one-GPU machines could be launched."""
    rows = list(csv.reader(io.StringIO(read_text(path), newline="")))
    if not rows or not any(rows[0]):
        raise Invalid(f"{path}: the file is empty; its first line names the zones.")
    columns = [(place, name.strip()) for place, name in enumerate(rows[0]) if name.strip() not in NOT_ZONES]
    _check_zones(path, [name for _, name in columns])
    counts = tuple(
        _counts(path, line, row, len(rows[0]), columns) for line, row in enumerate(rows[1:], start=2) if any(row)
    )
    if not counts:
        raise Invalid(f"{path}: no rows after the first line; one for every ten minutes is needed.")
    return Trace(tuple(name for _, name in columns), counts)


def _check_zones(path: Path, zones: list[str]) -> None:
    if not zones:
        raise Invalid(f"{path}, line 1: no column for a zone; every column but {' and '.join(NOT_ZONES)} is one.")
    for number, zone in enumerate(zones):
        if not zone or zone in zones[:number]:
            raise Invalid(f"{path}, line 1: {f'zone {zone} appears twice' if zone else 'a column has no name'}.")


def _counts(path: Path, line: int, row: list[str], width: int, columns: list[tuple[int, str]]) -> tuple[int, ...]:
    if len(row) != width:
        raise Invalid(f"{path}, line {line}: {len(row)} values where the first line names {width} columns.")
    for place, zone in columns:
        if not COUNT.fullmatch(row[place].strip()):
            raise Invalid(
                f"{path}, line {line}: {zone}: '{row[place][:40]}' is not a count; write a whole number from 0."
            )
    return tuple(int(row[place]) for place, _ in columns)


def load_prices(path: Path) -> Mapping[str, ZonePrice]:
    """Zone -> [spot, on-demand] per GPU-hour, exactly as written (no float comes between)."""
    pairs = read(read_text(path), str(path)).pairs()
    if not pairs:
        raise Invalid(f"{path}: no prices; write zone: [spot, on-demand] for at least one zone.")
    unique([(key.text(), key) for key, _ in pairs], "zone")
    return {key.text(): _price(value) for key, value in pairs}


def _price(cell: Cell) -> ZonePrice:
    both = cell.cells()
    if len(both) != 2:
        raise cell.wrong(f"must be two prices per GPU-hour, [spot, on-demand], not {len(both)}.")
    return ZonePrice(_amount(both[0]), _amount(both[1]))


def _amount(cell: Cell) -> Fraction:
    found = cell.number()
    if not found:
        raise cell.wrong("must be above 0.")
    return found
