"""Chance as an argument: what a replay needs of a seeded generator (`random.Random` has it all)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Dice(Protocol):
    """A seeded source of chance."""

    def choice(self, seq: Sequence[T], /) -> T: ...

    def sample(self, population: Sequence[T], k: int) -> list[T]: ...

    def randrange(self, start: int, /) -> int: ...


Seeded = Callable[[int], Dice]
"""A fresh source for a seed."""
