"""The state of the world: records in memory, each change written to disk before anything is done about it.

A change is `put`, then `commit` makes all of them durable in one SQLite transaction, or `rollback` forgets them.
After a kill at any instant the file holds the last commit, whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from gpufleet.errors import Temporary
from gpufleet.sandbox.records import Bought, Facts, Gang, Machine, Notice, Removed, Stock

Record = TypeVar("Record")
GangKey = tuple[str, int]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record (kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, key))
"""


@dataclass(frozen=True, slots=True)
class _Was:
    """What a record was before it was touched, to take it back; None when there was none."""

    record: Any


_CODECS: Final[dict[type[Any], TypeAdapter[Any]]] = {
    kind: TypeAdapter(kind) for kind in (Machine, Gang, Removed, Stock, Bought, Notice, Facts)
}
"""Built once: that costs more than a hundred documents."""


class Shelf(Mapping[Any, Record], Generic[Record]):
    """All records of one kind, by their key. Reading is a mapping's; changes count from the next commit."""

    def __init__(self, kind: type[Record], key: Callable[[Record], Any]) -> None:
        self.kind = kind.__name__
        self._codec: TypeAdapter[Record] = _CODECS[kind]
        self._key = key
        self._records: dict[Any, Record] = {}
        self._touched: dict[Any, _Was] = {}

    def __getitem__(self, key: Any) -> Record:
        return self._records[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def put(self, record: Record) -> None:
        key = self._key(record)
        self._touched.setdefault(key, _Was(self._records.get(key)))
        self._records[key] = record

    def drop(self, key: Any) -> None:
        if key in self._records:
            self._touched.setdefault(key, _Was(self._records[key]))
            del self._records[key]

    @property
    def is_touched(self) -> bool:
        return bool(self._touched)

    def rows(self) -> Iterator[tuple[str, str, str | None]]:
        """Kind, key and JSON of what was touched; no JSON = dropped."""
        for key in self._touched:
            body = self._codec.dump_json(self._records[key]).decode() if key in self._records else None
            yield self.kind, repr(key), body

    def settle(self) -> None:
        self._touched.clear()

    def rollback(self) -> None:
        for key, was in self._touched.items():
            if was.record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = was.record
        self._touched.clear()

    def load(self, body: str) -> None:
        record = self._codec.validate_json(body)
        self._records[self._key(record)] = record


class Book:
    """Every shelf, and the file behind them; `path` None keeps it in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.machines: Shelf[Machine] = Shelf(Machine, lambda machine: machine.name)
        self.gangs: Shelf[Gang] = Shelf(Gang, lambda gang: (gang.ask.job, gang.ask.attempt))
        self.removed: Shelf[Removed] = Shelf(Removed, lambda removed: (removed.job, removed.attempt))
        self.stock: Shelf[Stock] = Shelf(Stock, lambda stock: stock.name)
        self.instances: Shelf[Bought] = Shelf(Bought, lambda bought: bought.name)
        self.notices: Shelf[Notice] = Shelf(Notice, lambda notice: notice.id)
        self._facts: Shelf[Facts] = Shelf(Facts, lambda facts: "")
        self._file = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        # A write-ahead log with normal syncing loses nothing to a kill of the process, only to a power cut.
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.execute(_SCHEMA)
        self._load()

    @property
    def facts(self) -> Facts:
        """Set before anything else happens; see `founding`."""
        return self._facts[""]

    @property
    def is_new(self) -> bool:
        return not self._facts

    def set_facts(self, facts: Facts) -> None:
        self._facts.put(facts)

    def live_gangs(self) -> tuple[Gang, ...]:
        return tuple(gang for gang in self.gangs.values() if not gang.is_over)

    def commit(self) -> None:
        """Make what was put durable; raises Temporary, with everything taken back, when the disk refuses."""
        if not any(shelf.is_touched for shelf in self._shelves):
            return
        try:
            self._write()
        except sqlite3.Error as error:
            self.rollback()
            raise Temporary(f"The sandbox could not write its state to disk: {error}.") from error
        for shelf in self._shelves:
            shelf.settle()

    def rollback(self) -> None:
        for shelf in self._shelves:
            shelf.rollback()

    def close(self) -> None:
        self._file.close()

    @property
    def _shelves(self) -> tuple[Shelf[Any], ...]:
        return (self.machines, self.gangs, self.removed, self.stock, self.instances, self.notices, self._facts)

    def _write(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            for shelf in self._shelves:
                for kind, key, body in shelf.rows():
                    self._write_row(kind, key, body)
            self._file.execute("COMMIT")
        except BaseException:
            self._file.execute("ROLLBACK")
            raise

    def _write_row(self, kind: str, key: str, body: str | None) -> None:
        if body is None:
            self._file.execute("DELETE FROM record WHERE kind = ? AND key = ?", (kind, key))
        else:
            self._file.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (kind, key, body))

    def _load(self) -> None:
        shelves = {shelf.kind: shelf for shelf in self._shelves}
        for kind, body in self._file.execute("SELECT kind, body FROM record ORDER BY kind, key"):
            shelves[kind].load(body)
