"""How good each node is for one pod, as one integer per node (smaller is better), and the best of them.

Bands, coarse before fine: steadiness for work that must not be interrupted, the link for pods of several GPUs, by how
much the potential rises (slices: the room left on the card), then what is destroyed, packing, the fuller domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpufleet.model.hardware import Link
from gpufleet.model.plan import Reason
from gpufleet.model.workload import Job, Kind, PodSet, Share, Slice, Whole
from gpufleet.placement.demand import MANY, best_spot, capacity, share_memory
from gpufleet.placement.mix import Ask, ask_of
from gpufleet.placement.pool import Fill, Pool, book_rows, same_pods
from gpufleet.placement.potential import Floats, Ints
from gpufleet.units import MIB_PER_GIB

UNFIT: Final = np.iinfo(np.int64).max
"""Worth of a node on which the pod does not fit."""

COST_BITS, FINE_BITS, CARD_BITS = 24, 33, 6
"""Of the integer: the rise of the potential in 1/100,000 GPU; what breaks ties; of that the card's index."""

NODE_BITS = 6
"""Of the integer of a slice: the node's free cards."""

PER_GPU, LOWEST = 100_000, 64.0
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Pick:
    """The best node for one pod, and for a share the card."""

    node: str
    gpu: int | None = None


def rooms(pool: Pool, pod_set: PodSet) -> Ints:
    """By row, how many such pods the node can take now."""
    key = ("room", pool.ledger.ignore, *same_pods(pod_set))
    whole = isinstance(pod_set.demand, Whole) and pod_set.demand.gpus > 0
    return pool.column(key, lambda: _whole_rooms(pod_set) if whole else _any_rooms(pod_set))


def _any_rooms(pod_set: PodSet) -> Fill:
    def fill(pool: Pool, rows: Ints) -> Ints:
        return np.array([capacity(pool.ledger, b, pod_set) for b in book_rows(pool, rows)], dtype=np.int64)

    return fill


def _whole_rooms(pod_set: PodSet) -> Fill:
    assert isinstance(pod_set.demand, Whole)
    gpus = pod_set.demand.gpus

    def fill(pool: Pool, rows: Ints) -> Ints:
        return np.minimum(pool.now.free[rows] // gpus, _host_rooms(pool, rows, pod_set))

    return fill


def _host_rooms(pool: Pool, rows: Ints, pod_set: PodSet) -> Ints:
    found = np.full(len(rows), MANY, dtype=np.int64)
    if Reason.HOST_RESOURCES in pool.ledger.ignore:
        return found
    if pod_set.cpu:
        found = np.minimum(found, (np.maximum(pool.now.cpu[rows], 0) / pod_set.cpu + SLACK).astype(np.int64))
    if pod_set.memory_mib:
        gib = pod_set.memory_mib / MIB_PER_GIB
        found = np.minimum(found, (np.maximum(pool.now.memory_gib[rows], 0) / gib + SLACK).astype(np.int64))
    return found


def _has_host(pool: Pool, rows: Ints, pod_set: PodSet) -> NDArray[np.bool_] | bool:
    """Whether the host has what one pod asks."""
    if Reason.HOST_RESOURCES in pool.ledger.ignore:
        return True
    enough: NDArray[np.bool_] | bool = True
    if pod_set.cpu:
        enough = pool.now.cpu[rows] >= pod_set.cpu * (1 - SLACK)
    if pod_set.memory_mib:
        enough = enough & (pool.now.memory_gib[rows] >= pod_set.memory_mib / MIB_PER_GIB * (1 - SLACK))
    return enough


def pick(pool: Pool, pod_set: PodSet, job: Job, among: NDArray[np.bool_] | None = None) -> Pick | None:
    """The best node of the pool (of the rows in `among`) for one pod, or None where none has room."""
    keys = worths(pool, pod_set, job)
    if among is not None:
        keys = np.where(among, keys, UNFIT)
    if not len(keys):
        return None
    row = int(keys.argmin())
    best = int(keys[row])
    if best == UNFIT:
        return None
    if isinstance(pod_set.demand, Slice):  # equal ones differ by their place in the topology only, as rows do
        return Pick(pool.names[row])
    share = isinstance(pod_set.demand, Share)
    ties = (keys >> CARD_BITS == best >> CARD_BITS if share else keys == best).nonzero()[0]
    if len(ties) > 1:
        row = int(ties[_tie(pool, ties).argmin()])
    return Pick(pool.names[row], int(keys[row]) & (1 << CARD_BITS) - 1 if share else None)


def worths(pool: Pool, pod_set: PodSet, job: Job) -> Ints:
    """By row how good the node is for one pod, smaller is better; UNFIT where it has no room."""
    steady = job.kind is Kind.INFERENCE
    return pool.column(("worth", pool.ledger.ignore, steady, *same_pods(pod_set)), lambda: _worths(pod_set, steady))


def _tie(pool: Pool, rows: Ints) -> Ints:
    """Of equal places the one on the node with fewer free cards, in the fuller domain, first in the topology."""
    leaf_free = pool.now.leaf_free[pool.leaf[rows]]
    found: Ints = ((pool.now.free[rows] << 24) + leaf_free << 24) + pool.order[rows]
    return found


def _worths(pod_set: PodSet, steady: bool) -> Fill:
    match pod_set.demand:
        case Slice() as demand:
            worths: Fill = _slice_worths(pod_set, demand)
        case Share() as share:
            worths = _share_worths(pod_set, share)
        case _:
            worths = _whole_worths(pod_set)

    def fill(pool: Pool, rows: Ints) -> Ints:
        found = worths(pool, rows)
        if steady:
            found = np.where(found == UNFIT, UNFIT, found + (pool.steady[rows] << COST_BITS + FINE_BITS + 2))
        return found

    return fill


def _cost(rise: Floats) -> Ints:
    scaled = rise * PER_GPU + (LOWEST * PER_GPU + 0.5)
    found: Ints = np.minimum(np.maximum(scaled, 0), (1 << COST_BITS) - 1).astype(np.int64)
    return found


def _whole_worths(pod_set: PodSet) -> Fill:
    ask = ask_of(pod_set)
    assert ask is not None and isinstance(pod_set.demand, Whole)
    gpus = pod_set.demand.gpus

    def fill(pool: Pool, rows: Ints) -> Ints:
        found = np.full(len(rows), UNFIT)
        fits = np.flatnonzero((pool.now.free[rows] >= gpus) & _has_host(pool, rows, pod_set))
        if not len(fits):
            return found
        rows = rows[fits]
        left = pool.now.free[rows] - gpus
        phi = _after_whole(pool, rows, ask)
        keys = (_cost(phi - pool.phi()[rows]) << FINE_BITS) + (left << 7) + destroyed(pool, rows, left)
        found[fits] = keys + (pool.link[rows] << COST_BITS + FINE_BITS) if gpus > 1 else keys
        return found

    return fill


FEW: Final = 3
"""Up to so many nodes are worked out one by one, which is quicker than to call numpy."""


def _after_whole(pool: Pool, rows: Ints, ask: Ask) -> Floats:
    """By row, the potential with the pod there."""
    potential, now = pool.ledger.potential, pool.now
    if len(rows) > FEW:
        return potential.after_whole(ask, now.milli[rows], now.cpu[rows], now.memory_gib[rows])
    found = []
    for row in rows.tolist():
        milli = list(pool.books[row].milli)
        for card in pool.books[row].free[: ask.milli // 1000]:
            milli[card] = 0
        found.append(potential.phi(milli, float(now.cpu[row]) - ask.cpu, float(now.memory_gib[row]) - ask.memory_gib))
    return np.array(found)


def _memory_of(pool: Pool, demand: Share) -> Ints:
    """By row, what the share takes of a card's memory there."""
    if ("memory", demand) not in pool.facts:
        need = [share_memory(demand, b.node.model) for b in pool.books]
        pool.facts["memory", demand] = np.array(need, dtype=np.int64)
    return pool.facts["memory", demand]


def destroyed(pool: Pool, rows: Ints, left: Ints) -> Ints:
    """How many cards with free instances must be taken when only so many free cards are left."""
    found: Ints = np.maximum(0, pool.now.cut[rows] - left)
    return found


def _share_worths(pod_set: PodSet, demand: Share) -> Fill:
    ask = ask_of(pod_set)
    assert ask is not None

    def fill(pool: Pool, rows: Ints) -> Ints:
        found = np.full(len(rows), UNFIT)
        some = np.flatnonzero((pool.now.milli[rows].max(1) >= demand.milli) & _has_host(pool, rows, pod_set))
        if not len(some):
            return found
        rows = rows[some]
        milli = pool.now.milli[rows]
        fits = milli >= demand.milli
        if Reason.MEMORY not in pool.ledger.ignore:
            fits &= pool.now.spare_mib[rows] >= _memory_of(pool, demand)[rows][:, None]
        if Reason.SHARING not in pool.ledger.ignore:
            fits &= _offers_shares(pool)[rows][:, None] > 0
        phi = pool.ledger.potential.after_share(ask, milli, pool.now.cpu[rows], pool.now.memory_gib[rows])
        keys = (_cost(phi - pool.phi()[rows][:, None]) << FINE_BITS) + _share_fine(pool, rows, demand.milli)
        found[some] = np.where(fits, keys, UNFIT).min(1)
        return found

    return fill


def _offers_shares(pool: Pool) -> Ints:
    """By row: 1 where the node offers shares."""
    if "sharing" not in pool.facts:
        pool.facts["sharing"] = np.array([b.node.sharing for b in pool.books], dtype=np.int64)
    return pool.facts["sharing"]


def _share_fine(pool: Pool, rows: Ints, milli: int) -> Ints:
    """By card: free instances in the way, thousandths left, memory left (in 128 MiB), a bridge pair broken, index."""
    left = np.maximum(pool.now.milli[rows] - milli, 0)
    memory = np.minimum(pool.now.spare_mib[rows] >> 7, (1 << 12) - 1)
    fine: Ints = (((left << 14) + (memory << 2)) << CARD_BITS) + np.arange(pool.now.milli.shape[1])
    if pool.now.is_plain:
        return fine
    for i, book in enumerate(book_rows(pool, rows)):
        pairs = book.node.link is Link.NVLINK_PAIRS
        for index, card in enumerate(book.cards if book.cut or pairs else ()):
            pair = int(pairs and index in book.free and index ^ 1 in book.free)
            fine[i, index] += (min(len(card.free), 7) << 24) + pair << CARD_BITS
    return fine


def _slice_worths(pod_set: PodSet, demand: Slice) -> Fill:
    def fill(pool: Pool, rows: Ints) -> Ints:
        hosts = _has_host(pool, rows, pod_set)
        found = []
        for i, book in enumerate(book_rows(pool, rows)):
            spot = best_spot(book, demand) if hosts is True or (not isinstance(hosts, bool) and hosts[i]) else None
            free = min(len(book.free), (1 << NODE_BITS) - 1)
            found.append((spot.key << NODE_BITS) + free if spot else UNFIT)
        return np.array(found, dtype=np.int64)

    return fill
