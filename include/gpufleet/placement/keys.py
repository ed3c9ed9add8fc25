"""The integer of one node for one pod (smaller is better), kind of demand by kind: of many nodes at once, or of one.

Bands, coarse before fine: steadiness for work that must not be interrupted, the link for pods of several GPUs, by how
much the potential rises (slices: the room left on the card), then what is destroyed, packing, the card.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import ge
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpufleet.model.hardware import Link
from gpufleet.model.plan import Reason
from gpufleet.model.workload import PodSet, Share, Slice, Whole
from gpufleet.placement.column import FEW, Fill, one_by_one
from gpufleet.placement.demand import best_spot, share_memory
from gpufleet.placement.ledger import Ledger, NodeBook
from gpufleet.placement.pool import Pool, host_of
from gpufleet.placement.potential import Floats, Ints
from gpufleet.units import MIB_PER_GIB

UNFIT: Final = int(np.iinfo(np.int64).max)
"""Worth of a node on which the pod does not fit."""

COST_BITS, FINE_BITS, CARD_BITS = 24, 33, 6
"""Of the integer: the rise of the potential in 1/100,000 GPU; what breaks ties; of that the card's index."""
LINK_BITS: Final = COST_BITS + FINE_BITS
STEADY_BITS: Final = LINK_BITS + 2
NODE_BITS = 6
"""Of the integer of a slice: the node's free cards."""

PER_GPU, LOWEST = 100_000, 64.0
HALF_UP: Final = LOWEST * PER_GPU + 0.5
MOST_COST: Final = (1 << COST_BITS) - 1
MOST_SPARE: Final = (1 << 12) - 1
SLACK = 1e-9


def keys_of(pod_set: PodSet, ledger: Ledger) -> Fill:
    """How to work them out for such pods."""
    match pod_set.demand:
        case Slice() as demand:
            return _slices(pod_set, demand, ledger)
        case Share() as share:
            keys: _ShareKeys | _WholeKeys = _ShareKeys(pod_set, share, ledger)
        case Whole(gpus):
            keys = _WholeKeys(pod_set, gpus, ledger)
    return Fill(keys.one, keys.many, by_state=True)


def steadied(fill: Fill) -> Fill:
    """The same for work that must not be interrupted: nodes that stay come first."""

    def one(pool: Pool, row: int) -> int:
        key = fill.one(pool, row)
        return key if key == UNFIT else key + (pool.steady.item(row) << STEADY_BITS)

    def many(pool: Pool, rows: Ints) -> Ints:
        found = fill.many(pool, rows)
        return np.where(found == UNFIT, UNFIT, found + (pool.steady[rows] << STEADY_BITS))

    return Fill(one, many, fill.by_state)


def _least(pod_set: PodSet, ledger: Ledger) -> tuple[float, float]:
    """The cores and GiB that a node must have free; who asks for none gets on with less than none."""
    if Reason.HOST_RESOURCES in ledger.ignore:
        return -math.inf, -math.inf
    cpu = pod_set.cpu * (1 - SLACK) if pod_set.cpu else -math.inf
    return cpu, pod_set.memory_mib / MIB_PER_GIB * (1 - SLACK) if pod_set.memory_mib else -math.inf


def _costs(rise: Floats) -> Ints:
    scaled = rise * PER_GPU + HALF_UP
    found: Ints = np.minimum(np.maximum(scaled, 0), MOST_COST).astype(np.int64)
    return found


def _cost(rise: float) -> int:
    """The same for one node."""
    return int(min(max(rise * PER_GPU + HALF_UP, 0), MOST_COST))


# ---------------------------------------------------------------- whole GPUs


class _Host:
    """What a pod asks of a node's cores and memory."""

    def __init__(self, pod_set: PodSet, ledger: Ledger) -> None:
        self.cpu, self.memory = _least(pod_set, ledger)
        self.taken = np.array([[pod_set.cpu or 0.0], [(pod_set.memory_mib or 0) / MIB_PER_GIB]])
        self.takes_cpu, self.takes_memory = self.taken[:, 0].tolist()

    def fits(self, hosts: Floats) -> NDArray[np.bool_]:
        """By column of (cores, GiB)."""
        found: NDArray[np.bool_] = (hosts[0] >= self.cpu) & (hosts[1] >= self.memory)
        return found


class _WholeKeys:
    def __init__(self, pod_set: PodSet, gpus: int, ledger: Ledger) -> None:
        self._gpus, self._host, self._potential = gpus, _Host(pod_set, ledger), ledger.potential

    def one(self, pool: Pool, row: int) -> int:
        book, host = pool.books[row], self._host
        cpu, memory = host_of(book)
        left = len(book.free) - self._gpus
        if left < 0 or cpu < host.cpu or memory < host.memory:
            return UNFIT
        milli = list(book.milli)
        for card in book.free[: self._gpus]:
            milli[card] = 0
        phi = self._potential.phi(milli, cpu - host.takes_cpu, memory - host.takes_memory)
        lost = max(0, sum([1 for i in book.free if book.cards[i].free]) - left) if book.cut else 0
        key = (_cost(phi - pool.phi(row)) << FINE_BITS) + (left << 7) + lost
        return key + (pool.link.item(row) << LINK_BITS) if self._gpus > 1 else key

    def many(self, pool: Pool, rows: Ints) -> Ints:
        now, found = pool.now, np.full(len(rows), UNFIT)
        hosts, free = now.host.take(rows, 1), now.free.take(rows)
        fits = ((free >= self._gpus) & self._host.fits(hosts)).nonzero()[0]
        if len(fits) <= FEW:
            found[fits] = [self.one(pool, row) for row in rows[fits].tolist()]
            return found
        rows, hosts, free = rows[fits], hosts.take(fits, 1) - self._host.taken, free[fits]
        phi = self._potential.after_whole(self._gpus, now.milli.take(rows, 0), hosts, free)
        left = free - self._gpus
        keys = (_costs(phi - pool.phis(rows)) << FINE_BITS) + (left << 7) + destroyed(pool, rows, left)
        found[fits] = keys + (pool.link[rows] << LINK_BITS) if self._gpus > 1 else keys
        return found


def destroyed(pool: Pool, rows: Ints, left: Ints) -> Ints:
    """How many cards with free instances must be taken when only so many free cards are left."""
    found: Ints = np.maximum(0, pool.now.cut[rows] - left)
    return found


# ---------------------------------------------------------------- shares


class _ShareKeys:
    def __init__(self, pod_set: PodSet, demand: Share, ledger: Ledger) -> None:
        self._demand, self._milli = demand, demand.milli
        self._host, self._potential = _Host(pod_set, ledger), ledger.potential
        self._any_node, self._any_memory = Reason.SHARING in ledger.ignore, Reason.MEMORY in ledger.ignore

    def one(self, pool: Pool, row: int) -> int:
        book, host = pool.books[row], self._host
        cpu, memory = host_of(book)
        if cpu < host.cpu or memory < host.memory or not (self._any_node or book.node.sharing):
            return UNFIT
        if max(book.milli, default=0) < self._milli:
            return UNFIT
        left = cpu - host.takes_cpu, memory - host.takes_memory
        return self._best_card(book, self._potential.share_costs(self._milli, book.milli, *left), pool.phi(row))

    def _best_card(self, book: NodeBook, costs: dict[int, float], phi: float) -> int:
        milli, need, best = self._milli, self._memory(book), UNFIT
        keys = {
            free: (_cost(cost - phi) << FINE_BITS) + (free - milli << 14 + CARD_BITS) for free, cost in costs.items()
        }
        is_plain = not book.cut and book.node.link is not Link.NVLINK_PAIRS
        for card, (free, spare) in enumerate(zip(book.milli, book.spare_mib, strict=True)):
            if free >= milli and spare >= need:
                key = keys[free] + (min(spare >> 7, MOST_SPARE) << 2 + CARD_BITS) + card
                if not is_plain:
                    key += _in_the_way(book, card) << CARD_BITS
                if key < best:
                    best = key
        return best

    def _memory(self, book: NodeBook) -> int:
        """What the share takes of a card's memory there."""
        return 0 if self._any_memory else share_memory(self._demand, book.node.model)

    def many(self, pool: Pool, rows: Ints) -> Ints:
        now, found = pool.now, np.full(len(rows), UNFIT)
        hosts = now.host.take(rows, 1)
        fitting = (now.most.take(rows) >= self._milli) & self._host.fits(hosts)
        if not self._any_node:
            fitting &= _known(pool, "sharing", lambda book: book.node.sharing).take(rows) > 0
        some = fitting.nonzero()[0]
        if len(some) <= FEW:
            found[some] = [self.one(pool, row) for row in rows[some].tolist()]
        else:
            found[some] = self._of_cards(pool, rows[some], hosts.take(some, 1) - self._host.taken).min(1)
        return found

    def _of_cards(self, pool: Pool, rows: Ints, hosts: Floats) -> Ints:
        """By row and card; `hosts` are what is left of cores and memory."""
        now = pool.now
        free, spare = now.milli.take(rows, 0), now.spare_mib.take(rows, 0)
        left = np.maximum(free - self._milli, 0)
        need = self._memories(pool, rows)
        total = now.total.take(rows) - self._milli
        phi = self._potential.after_share(free, left, hosts, now.free.take(rows), total)
        keys = _costs(phi - pool.phis(rows)[:, None]) << FINE_BITS
        keys += _fine(pool, rows, left, spare)
        return np.where((free >= self._milli) & (spare >= need), keys, UNFIT)

    def _memories(self, pool: Pool, rows: Ints) -> Ints | int:
        """What the share takes of a card's memory, by row where they differ: nodes of one model are asked once."""
        if pool.is_of_one_model:
            return self._memory(pool.books[0])
        return _known(pool, ("memory", self._demand, self._any_memory), self._memory).take(rows)[:, None]


def _known(pool: Pool, key: object, of: Callable[[NodeBook], int]) -> Ints:
    """A fact about every row that never changes."""
    if key not in pool.facts:
        pool.facts[key] = np.array([of(book) for book in pool.books], dtype=np.int64)
    return pool.facts[key]


def _fine(pool: Pool, rows: Ints, left: Ints, spare: Ints) -> Ints:
    """By card: free instances in the way, thousandths left, memory left (in 128 MiB), a bridge pair broken, index."""
    memory = np.minimum(spare >> 7, MOST_SPARE) << 2 + CARD_BITS
    fine: Ints = (left << 14 + CARD_BITS) + memory + np.arange(left.shape[1])
    if pool.now.is_plain:
        return fine
    for i, row in enumerate(rows.tolist()):
        book = pool.books[row]
        if book.cut or book.node.link is Link.NVLINK_PAIRS:
            for index in range(len(book.cards)):
                fine[i, index] += _in_the_way(book, index) << CARD_BITS
    return fine


def _in_the_way(book: NodeBook, index: int) -> int:
    """Of one card: free instances to destroy, a bridge pair to break."""
    pair = book.node.link is Link.NVLINK_PAIRS and index in book.free and index ^ 1 in book.free
    return (min(len(book.cards[index].free), 7) << 24) + pair


# ---------------------------------------------------------------- slices


def _slices(pod_set: PodSet, demand: Slice, ledger: Ledger) -> Fill:
    least = _least(pod_set, ledger)
    asks_host = max(least) > -math.inf

    def one(pool: Pool, row: int) -> int:
        book = pool.books[row]
        if asks_host and not all(map(ge, host_of(book), least)):
            return UNFIT
        spot = best_spot(book, demand)
        return (spot.key << NODE_BITS) + min(len(book.free), (1 << NODE_BITS) - 1) if spot else UNFIT

    return one_by_one(one)
