"""Lists of keys for one query each: a database takes only so many parameters at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

MOST: Final = 5000
"""SQLite takes 32,766 parameters, PostgreSQL's protocol 65,535; a key may need several."""


def chunks(keys: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """The keys in order, so many at a time."""
    rest = iter(keys)
    while some := tuple(islice(rest, MOST)):
        yield some
