"""So much for those who come first: a quota over a team's stretches (rule 19), a commitment over use (rule 21).

A line of items by rank, each with an amount, and a capacity that covers it from the front; the last one may be split.
A fleet changes a thousand times an hour, so a change touches only the items whose cover moves, not the whole line.
"""

from __future__ import annotations

from bisect import bisect_left


class Cover:
    """Amounts are whole numbers of some grain. `put` and `resize` answer with the ranks whose cover may have changed."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self._line: list[int] = []
        self._amounts: dict[int, int] = {}
        self._edge = 0
        """Index of the first item that is not covered whole; before it lies `_before` in all."""
        self._before = 0

    def amount(self, rank: int) -> int:
        return self._amounts.get(rank, 0)

    def covered(self, rank: int) -> int:
        """How much of this item is covered."""
        amount = self._amounts.get(rank, 0)
        if self._edge == len(self._line) or rank < self._line[self._edge]:
            return amount
        return self.capacity - self._before if rank == self._line[self._edge] else 0

    @property
    def used(self) -> int:
        """How much of the capacity covers something."""
        return self._before if self._edge == len(self._line) else self.capacity

    def resize(self, capacity: int) -> list[int]:
        """Cover more or less from now on."""
        touched = self._at_edge()
        self.capacity = capacity
        return touched + self._settle()

    def put(self, rank: int, amount: int) -> list[int]:
        """This item's amount is so much from now on; 0 takes it out."""
        touched = [rank, *self._at_edge()]
        place = bisect_left(self._line, rank)
        old = self._amounts.get(rank, 0)
        if place < self._edge:
            self._before += amount - old
        if amount and not old:
            self._line.insert(place, rank)
            self._edge += place < self._edge
        elif old and not amount:
            del self._line[place]
            self._edge -= place < self._edge
        if amount:
            self._amounts[rank] = amount
        else:
            self._amounts.pop(rank, None)
        return touched + self._settle()

    def _at_edge(self) -> list[int]:
        return self._line[self._edge : self._edge + 1]

    def _settle(self) -> list[int]:
        """Move the edge to where the capacity ends; the items it passes, and the one it comes to rest at."""
        passed: list[int] = []
        while self._before > self.capacity:
            self._edge -= 1
            self._before -= self._amounts[self._line[self._edge]]
            passed.append(self._line[self._edge])
        while self._edge < len(self._line) and self._before + self._amounts[self._line[self._edge]] <= self.capacity:
            self._before += self._amounts[self._line[self._edge]]
            passed.append(self._line[self._edge])
            self._edge += 1
        return passed + self._at_edge()
