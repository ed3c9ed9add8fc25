"""FOCUS rows as CSV and as Parquet, streamed: a million charges need no more memory than a thousand."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from gpufleet.exports.focus import COLUMNS, DECIMALS, Delivery, row
from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.charge import Charge

AT_ONCE: Final = 20_000
"""Rows of one Parquet row group: what is in memory at once."""


def write_csv(out: IO[str], charges: Iterable[Charge], delivery: Delivery) -> int:
    """A header and a row for each charge, streamed; returns how many."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    numbers = [i for i, name in enumerate(COLUMNS) if name in DECIMALS]
    count = 0
    for charge in charges:
        cells = row(charge, delivery)
        kept = [cells[i] for i in numbers]
        told = [tame(cell) if cell else "" for cell in cells]
        for i, number in zip(numbers, kept, strict=True):
            told[i] = number or ""  # a credit is a number below nothing, not a formula
        writer.writerow(told)
        count += 1
    return count


def write_parquet(path: Path, charges: Iterable[Charge], delivery: Delivery) -> int:
    """The same rows, amounts as decimal128(38, 18); streamed in row groups; the same charges give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    amount = pa.decimal128(38, 18)
    schema = pa.schema([(name, amount if name in DECIMALS else pa.string()) for name in COLUMNS])
    count, left = 0, iter(charges)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(left, AT_ONCE)):
            columns = list(zip(*(row(charge, delivery) for charge in some), strict=True))
            arrays = [
                pa.array(list(_typed(name, c)), schema.field(name).type)
                for name, c in zip(COLUMNS, columns, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(some)
    return count


def _typed(name: str, cells: Iterable[str | None]) -> Iterator[Any]:
    if name in DECIMALS:
        return (None if cell is None else Decimal(cell) for cell in cells)
    return iter(cells)
