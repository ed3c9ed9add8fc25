"""Buckets in a file without a name: it is gone when the process ends, however that ends."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final

AT_ONCE: Final = 4_000
"""Things kept in memory before all of them are written."""


class InFile:
    """Buckets (chargeback.buckets) that need the memory of a few thousand things, however many lie in them."""

    def __init__(self, folder: Path) -> None:
        """`folder` is there and has room. Only this process can read the file: what is read back is its own."""
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it is closed with us
        self._waiting: dict[Hashable, list[Any]] = {}
        self._waits = 0
        self._parts: dict[Hashable, list[int]] = {}
        """Where each part of a bucket begins."""
        self._counts: Counter[Hashable] = Counter()

    def put(self, key: Hashable, item: Any) -> None:
        self._waiting.setdefault(key, []).append(item)
        self._counts[key] += 1
        self._waits += 1
        if self._waits >= AT_ONCE:
            self._write()

    def count(self, key: Hashable) -> int:
        return self._counts[key]

    def take(self, key: Hashable) -> Iterator[Any]:
        self._write()
        for begin in self._parts.get(key, ()):
            self._file.seek(begin)
            yield from pickle.load(self._file)

    def _write(self) -> None:
        self._file.seek(0, 2)
        for key, items in self._waiting.items():
            self._parts.setdefault(key, []).append(self._file.tell())
            pickle.dump(items, self._file, pickle.HIGHEST_PROTOCOL)
        self._waiting.clear()
        self._waits = 0
