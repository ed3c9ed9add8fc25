"""FOCUS rows as CSV and as Parquet, streamed: a million charges need no more memory than a thousand."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpufleet.exports.focus import COLUMNS, DECIMALS, Delivery, row
from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.charge import Charge

if TYPE_CHECKING:
    import pyarrow as pa

CSV: Final = "focus_cost_and_usage.csv"
PARQUET: Final = "focus_cost_and_usage.parquet"
AT_ONCE: Final = 10_000
"""Rows of one Parquet row group: what is in memory at once."""

Cells = list[str | None]


def write_files(folder: Path, charges: Iterable[Charge], delivery: Delivery) -> int:
    """Both files, a row for each charge; returns how many. The same charges give the same bytes."""
    import pyarrow.parquet as pq

    schema, count, left = _schema(), 0, iter(charges)
    with (
        (folder / CSV).open("w", newline="") as out,
        pq.ParquetWriter(folder / PARQUET, schema, compression="zstd") as parquet,
    ):
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        while some := [row(charge, delivery) for charge in islice(left, AT_ONCE)]:
            writer.writerows(map(_told, some))
            parquet.write_table(_group(some, schema))
            count += len(some)
    return count


NUMBERS: Final = tuple(i for i, name in enumerate(COLUMNS) if name in DECIMALS)


def _told(cells: Cells) -> list[str]:
    told = [tame(cell) if cell else "" for cell in cells]
    for i in NUMBERS:
        told[i] = cells[i] or ""  # a credit is a number below nothing, not a formula
    return told


def _schema() -> pa.Schema:
    """Amounts as decimal128(38, 18), all else as text."""
    import pyarrow as pa

    amount = pa.decimal128(38, 18)
    return pa.schema([(name, amount if name in DECIMALS else pa.string()) for name in COLUMNS])


def _group(rows: Sequence[Cells], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    arrays = [pa.array(list(_typed(name, cells)), schema.field(name).type) for name, cells in columns]
    return pa.Table.from_arrays(arrays, schema=schema)


def _typed(name: str, cells: Iterable[str | None]) -> Iterator[Any]:
    if name in DECIMALS:
        return (None if cell is None else Decimal(cell) for cell in cells)
    return iter(cells)
