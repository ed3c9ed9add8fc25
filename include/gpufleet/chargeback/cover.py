"""So much for those who come first: a quota over a team's stretches (rule 19), a commitment over use (rule 21).

A line of items by rank, each with an amount, and a capacity that covers it from the front; the last one may be split.
A fleet changes a thousand times an hour, so a change touches only the items whose cover moves, not the whole line.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BEYOND: Final = 1 << 62
"""Later than every rank."""


class Cover:
    """Amounts are whole numbers of some grain. `put` and `resize` answer with the ranks whose cover changed."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self._line: list[int] = []
        self._amounts: dict[int, int] = {}
        self._covered: dict[int, int] = {}
        self._edge = 0
        """Index of the first item that is not covered whole; before it lies `_before` in all."""
        self._before = 0

    def amount(self, rank: int) -> int:
        return self._amounts.get(rank, 0)

    def covered(self, rank: int) -> int:
        """How much of this item is covered."""
        return self._covered.get(rank, 0)

    @property
    def used(self) -> int:
        """How much of the capacity covers something."""
        return self._before if self._edge == len(self._line) else self.capacity

    def resize(self, capacity: int) -> list[int]:
        """Cover more or less from now on."""
        touched = self._line[self._edge : self._edge + 1]
        self.capacity = capacity
        return self._settle(touched)

    def put(self, rank: int, amount: int) -> list[int]:
        """This item's amount is so much from now on; 0 takes it out."""
        old = self._amounts.get(rank, 0)
        if amount == old:
            return []
        place = bisect_left(self._line, rank)
        if place > self._edge:  # behind where the capacity ends: nobody's cover moves
            self._write(place, rank, old, amount)
            return []
        if self._edge == len(self._line) and self._before + amount - old <= self.capacity:  # there is room for all
            self._write(place, rank, old, amount)
            self._before += amount - old
            self._edge = len(self._line)
            self._covered[rank] = amount
            return [rank]
        touched = [rank, *self._line[self._edge : self._edge + 1]]
        if place < self._edge:
            self._before += amount - old
            self._edge += (not old) - (not amount)
        self._write(place, rank, old, amount)
        return self._settle(touched)

    def _write(self, place: int, rank: int, old: int, amount: int) -> None:
        if not old:
            self._line.insert(place, rank)
        if amount:
            self._amounts[rank] = amount
        else:
            del self._line[place], self._amounts[rank]

    def _settle(self, touched: list[int]) -> list[int]:
        """Move the edge to where the capacity ends; only the items it passes, and where it comes to rest, can change."""
        line, amounts = self._line, self._amounts
        while self._before > self.capacity:
            self._edge -= 1
            self._before -= amounts[line[self._edge]]
            touched.append(line[self._edge])
        while self._edge < len(line) and self._before + amounts[line[self._edge]] <= self.capacity:
            self._before += amounts[line[self._edge]]
            touched.append(line[self._edge])
            self._edge += 1
        touched += line[self._edge : self._edge + 1]
        return self._changed(touched)

    def _changed(self, touched: list[int]) -> list[int]:
        """Those of the touched whose cover is another than before; noted, so each is named once."""
        edge = self._line[self._edge] if self._edge < len(self._line) else BEYOND
        changed: list[int] = []
        for rank in touched:
            covered = self._amounts.get(rank, 0) if rank < edge else 0
            if rank == edge:
                covered = self.capacity - self._before
            if covered != self._covered.get(rank, 0):
                self._covered[rank] = covered
                changed.append(rank)
        return changed
