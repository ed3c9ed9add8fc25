"""Nodes that may serve one kind of request, as arrays that follow the ledger: one row per node.

A decision looks at numbers of all nodes, but only those of nodes that changed since the same kind was last asked for
are worked out again (docs/placement.md, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Link
from gpufleet.model.workload import PodSet, Slice
from gpufleet.placement.column import Column, Fill, reaching
from gpufleet.placement.ledger import Ledger, NodeBook
from gpufleet.placement.potential import PLENTY, Floats, Ints
from gpufleet.placement.topology import Topology
from gpufleet.units import MIB_PER_GIB

LINK_RANK: Final = {Link.NVSWITCH: 0, Link.NVLINK_PAIRS: 1, Link.PCIE: 2}
# Work that must not be interrupted is kept off spot where it left the choice open (design.md section 1).
STEADY_RANK: Final = {
    CapacityType.OWNED: 0,
    CapacityType.RESERVED: 0,
    CapacityType.ON_DEMAND: 1,
    CapacityType.SPOT: 2,
}

Domains = tuple[Ints, list[list[str]], Ints]
"""By row the number of its domain; by domain its nodes, and the place of its first node in the topology."""


class Arrays:
    """What decisions look at, row by row."""

    def __init__(self, books: Sequence[NodeBook], leaf: Ints, leaves: int) -> None:
        rows, cards = len(books), max([len(b.cards) for b in books], default=0)
        self._books, self._leaf = books, leaf
        self.milli: Ints = np.zeros((rows, cards), dtype=np.int64)
        """Thousandths that a share could get, card by card."""
        self.spare_mib: Ints = np.zeros((rows, cards), dtype=np.int64)
        self.most: Ints = np.zeros(rows, dtype=np.int64)
        """Thousandths of the emptiest card, ..."""
        self.total: Ints = np.zeros(rows, dtype=np.int64)
        """... and of all of them."""
        self.free: Ints = np.zeros(rows, dtype=np.int64)
        """Cards that could be given whole."""
        self.cut: Ints = np.zeros(rows, dtype=np.int64)
        """Those of them on which instances exist."""
        self.host: Floats = np.full((2, rows), PLENTY)
        """Free cores, free GiB."""
        self.leaf_free: Ints = np.zeros(leaves, dtype=np.int64)
        """By narrowest domain its free GPUs: of two equal holes the one in the fuller domain is taken."""
        self.is_plain = all(b.node.link is not Link.NVLINK_PAIRS for b in books)
        """No bridge pairs to keep, and no instances seen on any card."""
        self.copy(range(rows))

    def copy(self, rows: Iterable[int]) -> None:
        """These rows as their books are now."""
        for row in rows:
            book = self._books[row]
            self.milli[row, : len(book.milli)] = book.milli
            self.spare_mib[row, : len(book.milli)] = book.spare_mib
            self.most[row], self.total[row] = max(book.milli, default=0), sum(book.milli)
            free = len(book.free)
            self.leaf_free[self._leaf[row]] += free - self.free[row]
            self.free[row] = free
            if book.has_host:
                self.host[:, row] = host_of(book)
            self.cut[row] = sum(1 for i in book.free if book.cards[i].free) if book.cut else 0
            self.is_plain = self.is_plain and not book.cut


class Pool:
    """Rows in the order of the topology."""

    def __init__(self, ledger: Ledger, topology: Topology, names: Sequence[str]) -> None:
        self.ledger, self.topology, self.asked = ledger, topology, names
        self.names = names = sorted(names, key=topology.order.__getitem__)
        self.books = [ledger.books[name] for name in names]
        self._row = {book.number: row for row, book in enumerate(self.books)}
        self.changes: list[int] = []
        """Rows that changed, in the order of the changes, ..."""
        self.changed: Ints = np.full(len(names), -1)
        """... and by row, how many had changed before it changed last."""
        self.columns: dict[object, Column] = {}
        self.facts: dict[object, Ints] = {}
        """What never changes about the rows, for whoever wants to remember it."""
        self._domains: dict[int, Domains] = {}
        self._tables = list({id(book.table): book.table for book in self.books}.values())
        self.is_of_one_model = len({id(book.node.model) for book in self.books}) == 1
        self._seen = len(ledger.touched)
        self._versions = [book.version for book in self.books]
        self._phi: Floats = np.full(64, np.nan)
        """By state."""
        self._states: Ints = np.zeros(len(names), dtype=np.int64)
        self._arrays_seen, self._states_seen = 0, -1
        self.order: Ints = np.array([topology.order[name] for name in names], dtype=np.int64)
        self.link: Ints = np.array([LINK_RANK[b.node.link] for b in self.books], dtype=np.int64)
        self.steady: Ints = np.array([STEADY_RANK[b.node.capacity] for b in self.books], dtype=np.int64)
        self.leaf = self.domains(topology.leaf)[0]
        self._arrays = Arrays(self.books, self.leaf, len(self.domains(topology.leaf)[1]))

    def follow(self) -> None:
        """Hear of all changes in the ledger."""
        touched = self.ledger.touched
        if self._seen == len(touched):
            return
        if len(touched) - self._seen > len(self.books):  # a small pool looks at its books, not at everybody's changes
            rows = {row for row, book in enumerate(self.books) if book.version != self._versions[row]}
        else:
            rows = {row for number in touched[self._seen :] if (row := self._row.get(number)) is not None}
        for row in rows:
            self._versions[row] = self.books[row].version
        self._seen = len(touched)
        for row in rows:
            self.changed[row] = len(self.changes)
        self.changes.extend(rows)

    @property
    def now(self) -> Arrays:
        """The arrays, caught up with the ledger. Who asks for slices only never needs them."""
        self.follow()
        if self._arrays_seen < len(self.changes):
            self._arrays.copy(set(self.changes[self._arrays_seen :]))
            self._arrays_seen = len(self.changes)
        return self._arrays

    @property
    def states(self) -> Ints:
        """By row the state of its node."""
        self.follow()
        if self._states_seen < len(self.changes):
            self._number(self.changes[self._states_seen :] if self._states_seen >= 0 else range(len(self.names)))
        return self._states

    def _number(self, rows: Iterable[int]) -> None:
        self._states_seen = len(self.changes)
        for row in rows:
            self._states[row] = self.ledger.state(self.books[row])

    def domains(self, depth: int) -> Domains:
        """The nodes by their domain at one depth of the topology."""
        if depth not in self._domains:
            groups = self.topology.split(self.asked, depth)
            number = {path: i for i, path in enumerate(groups)}
            rows = [number[self.topology.paths[name][depth]] for name in self.names]
            first = [min(self.topology.order[n] for n in names) for names in groups.values()]
            ids, firsts = np.array(rows, dtype=np.int64), np.array(first, dtype=np.int64)
            self._domains[depth] = ids, list(groups.values()), firsts
        return self._domains[depth]

    def phi(self, row: int) -> float:
        """The potential of one node; nodes of equal state share it."""
        state = self.states.item(row)
        self._phi = reaching(self._phi, state, np.nan)
        found = self._phi.item(state)
        return found if found == found else self._new_phi(state, row)

    def phis(self, rows: Ints) -> Floats:
        """Of many."""
        states = self.states.take(rows)
        self._phi = reaching(self._phi, int(states.max(initial=0)), np.nan)
        found: Floats = self._phi.take(states)
        for i in np.isnan(found).nonzero()[0].tolist():
            found[i] = self._new_phi(states.item(i), rows.item(i))
        return found

    def _new_phi(self, state: int, row: int) -> float:
        book = self.books[row]
        found = self.ledger.potential.phi(book.milli, *host_of(book))
        self._phi[state] = found
        return found

    def by_domain(self, depth: int, values: Ints) -> Ints:
        """Sums of one value per row by domain."""
        ids, groups, _ = self.domains(depth)
        return np.bincount(ids, weights=values, minlength=len(groups)).astype(np.int64)

    def kind(self, pod_set: PodSet) -> tuple[object, ...]:
        """What makes two pod sets ask the same of these nodes, however many pods they have."""
        demand: object = pod_set.demand
        if isinstance(demand, Slice):  # as many needs of memory as there are, the same few profiles serve them
            demand = tuple([id(table.suitable(demand)) for table in self._tables])
        return demand, pod_set.cpu, pod_set.memory_mib

    def column(self, key: object, fill: Callable[[], Fill]) -> Ints:
        """What the fill says about every row, worked out again only where a row changed."""
        self.follow()
        found = self.columns.get(key)
        if found is None:
            found = self.columns[key] = Column(self, fill())
        return found.read()


def pool_of(ledger: Ledger, topology: Topology, names: Sequence[str]) -> Pool:
    """The pool of a list of names. Remembered by the list's identity, which lives as long as the pool."""
    key = id(names)
    found: Pool | None = ledger.pools.get(key)
    if found is None or found.asked is not names:
        found = ledger.pools[key] = Pool(ledger, topology, names)
    return found


def host_of(book: NodeBook) -> tuple[float, float]:
    """Free cores and GiB of the node, PLENTY where it does not say."""
    memory = PLENTY if book.memory_mib is None else book.memory_mib / MIB_PER_GIB
    return PLENTY if book.cpu is None else book.cpu, memory
