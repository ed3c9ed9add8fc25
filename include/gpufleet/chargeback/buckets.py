"""Where a long night lays aside what it does not need now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Any, Protocol


class Buckets(Protocol):
    """Keeps things by key until they are asked for, in the order they were put."""

    def put(self, key: Hashable, item: Any) -> None: ...

    def count(self, key: Hashable) -> int:
        """How many things lie in the bucket."""
        ...

    def take(self, key: Hashable) -> Iterator[Any]:
        """All of one bucket; nothing where there is none."""
        ...


class InMemory:
    """Buckets for what is small."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, list[Any]] = defaultdict(list)

    def put(self, key: Hashable, item: Any) -> None:
        self._kept[key].append(item)

    def count(self, key: Hashable) -> int:
        return len(self._kept.get(key, ()))

    def take(self, key: Hashable) -> Iterator[Any]:
        yield from self._kept.get(key, ())
