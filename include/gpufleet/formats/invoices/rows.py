"""Rows of an export: CSV, gzipped CSV, JSON lines or Parquet, each with its place for errors."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, Any, Final

from gpufleet.errors import Invalid, NotFound

FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2999
DAY_FORMS: Final = ("%m/%d/%Y", "%Y-%m-%d", "%Y%m%d")


@dataclass(frozen=True, slots=True)
class InvoiceRow:
    """One row: values by column in lower case, dots as underscores. Readers turn a value into a fact, or raise."""

    file: str
    number: int
    values: Mapping[str, Any]

    def wrong(self, what: str) -> Invalid:
        """The error to raise about this row."""
        return Invalid(f"{self.file}, row {self.number}: {what}")

    def raw(self, *names: str) -> Any:
        """The value of the first of these columns that the export has; raises Invalid where it has none of them."""
        for name in names:
            if name in self.values:
                return self.values[name]
        raise self.wrong(f"the column '{names[0]}' is missing; export it too.")

    def text(self, *names: str) -> str:
        value = self.raw(*names)
        text = "" if value is None else str(value).strip()
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise self.wrong(f"{names[0]} holds a NUL or half a character, which no database keeps.")
        return text

    def maybe(self, *names: str) -> str:
        """The same, empty where the export does not have the column."""
        return self.text(*names) if any(name in self.values for name in names) else ""

    def amount(self, *names: str) -> Decimal:
        """An exact amount; an empty cell is 0."""
        return self.decimal(self.text(*names) or "0", names[0])

    def decimal(self, text: str, column: str) -> Decimal:
        try:
            found = Decimal(text if text.isascii() and "_" not in text else "NaN")
        except InvalidOperation:
            found = Decimal("NaN")
        if not found.is_finite() or abs(found) > Decimal(10) ** 12:
            raise self.wrong(f"{column} '{text[:60]}' is not an amount.")
        return found

    def instant(self, *names: str) -> datetime:
        """An instant; one without a zone is UTC, as all three providers write it. A day is its first instant."""
        value = self.raw(*names)
        try:
            found = value if isinstance(value, datetime) else self._told(value)
            found = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            found = datetime.min.replace(tzinfo=UTC)
        if not FIRST_YEAR <= found.year <= LAST_YEAR:
            text = str(value)[:60]
            raise self.wrong(f"{names[0]} '{text}' is not an instant of our time; write it as 2026-03-10T00:00:00Z.")
        return found

    @staticmethod
    def _told(value: Any) -> datetime:
        """Raises ValueError for what is no instant."""
        text = str(value or "").strip().removesuffix(" UTC").replace("Z", "+00:00")
        for form in DAY_FORMS:
            try:
                return datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                continue
        return datetime.fromisoformat(text)


Export = Iterable[InvoiceRow]


def read_export(path: Path) -> Iterator[InvoiceRow]:
    """Rows of the file, streamed; raises NotFound or Invalid that name it."""
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file.")
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    readers = {"csv": _csv, "jsonl": _jsonl, "json": _jsonl, "ndjson": _jsonl, "parquet": _parquet}
    if kind not in readers:
        raise Invalid(f"{path}: is none of .csv, .csv.gz, .jsonl and .parquet.")
    try:
        yield from _rows(path, readers[kind](path))
    except (OSError, UnicodeDecodeError, EOFError, csv.Error, zlib.error) as why:
        raise Invalid(f"{path}: cannot be read: {getattr(why, 'strerror', None) or why}.") from None


def _rows(path: Path, found: Iterable[Mapping[str, Any]]) -> Iterator[InvoiceRow]:
    number = 0
    for number, values in enumerate(found, 1):
        pairs = list(_flat(values))
        if twice := _twice(name for name, _ in pairs):
            raise Invalid(f"{path}, row {number}: names the column '{twice}' twice.")
        yield InvoiceRow(str(path), number, dict(pairs))
    if not number:
        raise Invalid(f"{path}: has no rows.")


def _twice(names: Iterable[str]) -> str:
    """The first name that is there more than once, or nothing."""
    return next((name for name, count in Counter(names).items() if count > 1), "")


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """`{"invoice": {"month": ..}}` and the column `invoice.month` are both `invoice_month`."""
    for name, value in values.items():
        key = f"{before}{str(name).strip().lower().replace('.', '_').replace('/', '_')}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{key}_")
        else:
            yield key, value


def _text(path: Path) -> IO[str]:
    opened: Callable[..., IO[str]] = gzip.open if path.name.lower().endswith(".gz") else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def _csv(path: Path) -> Iterator[Mapping[str, Any]]:
    with _text(path) as file:
        reader = csv.DictReader(file)
        if twice := _twice(reader.fieldnames or ()):
            raise Invalid(f"{path}: its header names the column '{twice}' twice.")
        for number, row in enumerate(reader, 1):
            if None in row or None in row.values():
                raise Invalid(f"{path}, row {number}: has not as many cells as the header.")
            yield row


def _jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line, parse_float=Decimal, object_pairs_hook=_pairs) if line.strip() else {}
            except _SaidTwice as why:
                raise Invalid(f"{path}, row {number}: names the column '{why}' twice.") from None
            except (ValueError, RecursionError):
                raise Invalid(f"{path}, row {number}: is not JSON.") from None
            if not isinstance(row, dict):
                raise Invalid(f"{path}, row {number}: must be an object with a value for each column.")
            if row:
                yield row


class _SaidTwice(Exception):
    """A key of a JSON object, which must be there once."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := _twice(name for name, _ in pairs):
        raise _SaidTwice(twice)
    return dict(pairs)


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Invalid(f"{path}: reading Parquet needs pyarrow; install it, or export CSV.") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except ArrowException as why:
        raise Invalid(f"{path}: is not Parquet: {str(why).splitlines()[0]}") from None


def next_day(day: datetime) -> datetime:
    """The end of a line that names only a day."""
    return datetime.combine(date.fromordinal(day.toordinal() + 1), day.timetz())
