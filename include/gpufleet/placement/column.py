"""One number per node of a pool, worked out again only where a node changed, and once for nodes of equal state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpufleet.placement.potential import Ints

if TYPE_CHECKING:
    from gpufleet.placement.pool import Pool

MANY: Final = 64
"""From so many nodes on it pays to look for equal ones among them."""
FEW: Final = 10
"""Up to so many nodes are worked out one by one, which is quicker than to call numpy."""


class Fill(NamedTuple):
    """How to work out the values of a column: of one row, of many at once. Both say the same."""

    one: Callable[[Pool, int], int]
    many: Callable[[Pool, Ints], Ints]
    by_state: bool = False
    """Whether nodes of equal state (`Ledger.state`) have equal values: then one of them is worked out."""


def one_by_one(one: Callable[[Pool, int], int], *, by_state: bool = False) -> Fill:
    """Where there is nothing to gain by looking at many nodes at once."""
    return Fill(one, lambda pool, rows: np.array([one(pool, row) for row in rows.tolist()], dtype=np.int64), by_state)


class Column:
    """One number per row that follows the pool."""

    __slots__ = ("_fill", "_known", "_pool", "_seen", "_values")

    def __init__(self, pool: Pool, fill: Fill) -> None:
        self._pool, self._fill = pool, fill
        self._known: Ints = np.full(64, UNKNOWN)
        """By state its value."""
        self._values: Ints = np.zeros(len(pool.names), dtype=np.int64)
        self._seen = len(pool.changes)
        self._set(np.arange(len(pool.names)))

    def read(self) -> Ints:
        changes = self._pool.changes
        if self._seen < len(changes):
            if len(changes) - self._seen > FEW:
                self._set((self._pool.changed >= self._seen).nonzero()[0])
            else:
                self._set_few(set(changes[self._seen :]))
            self._seen = len(changes)
        return self._values

    def _set_few(self, rows: Iterable[int]) -> None:
        pool, one = self._pool, self._fill.one
        if not self._fill.by_state:
            for row in rows:
                self._values[row] = one(pool, row)
            return
        states = pool.states
        for row in rows:
            state = states.item(row)
            self._known = reaching(self._known, state, UNKNOWN)
            found = self._known.item(state)
            if found == UNKNOWN:
                found = self._known[state] = one(pool, row)
            self._values[row] = found

    def _set(self, rows: Ints) -> None:
        if not self._fill.by_state:
            self._values[rows] = self._worked_out(rows)
            return
        states = self._pool.states.take(rows)
        self._known = reaching(self._known, int(states.max(initial=0)), UNKNOWN)
        new = (self._known.take(states) == UNKNOWN).nonzero()[0]
        if len(new) > MANY:
            which, first = np.unique(states.take(new), return_index=True)
            self._known[which] = self._worked_out(rows.take(new.take(first)))
        elif len(new):
            self._known[states.take(new)] = self._worked_out(rows.take(new))
        self._values[rows] = self._known.take(states)

    def _worked_out(self, rows: Ints) -> Ints | list[int]:
        if len(rows) > FEW:
            return self._fill.many(self._pool, rows)
        return [self._fill.one(self._pool, row) for row in rows.tolist()]


UNKNOWN: Final = -1
"""No column has such a value."""

T = TypeVar("T", bound=np.generic)


def reaching(known: NDArray[T], state: int, unknown: float) -> NDArray[T]:
    """The same array, or a longer one where it does not reach that state."""
    if state < len(known):
        return known
    return np.concatenate([known, np.full(state + len(known), unknown, dtype=known.dtype)])
