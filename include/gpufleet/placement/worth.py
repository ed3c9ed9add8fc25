"""How good each node is for one pod, as one integer per node (`keys`), and the best of them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpufleet.model.plan import Reason
from gpufleet.model.workload import Job, Kind, PodSet, Share, Slice, Whole
from gpufleet.placement.column import FEW, Fill, one_by_one
from gpufleet.placement.demand import MANY, capacity
from gpufleet.placement.keys import CARD_BITS, SLACK, UNFIT, keys_of, steadied
from gpufleet.placement.pool import Pool
from gpufleet.placement.potential import Ints
from gpufleet.units import MIB_PER_GIB


class Pick(NamedTuple):
    """The best node for one pod, and for a share the card."""

    node: str
    gpu: int | None = None


def rooms(pool: Pool, pod_set: PodSet) -> Ints:
    """By row, how many such pods the node can take now."""
    return pool.column(("room", pool.ledger.ignore, *pool.kind(pod_set)), lambda: _rooms(pod_set))


def _rooms(pod_set: PodSet) -> Fill:
    def one(pool: Pool, row: int) -> int:
        return capacity(pool.ledger, pool.books[row], pod_set)

    if not (isinstance(pod_set.demand, Whole) and pod_set.demand.gpus):
        return one_by_one(one, by_state=not isinstance(pod_set.demand, Slice))
    gpus = pod_set.demand.gpus

    def many(pool: Pool, rows: Ints) -> Ints:
        return np.minimum(pool.now.free[rows] // gpus, _host_rooms(pool, rows, pod_set))

    return Fill(one, many, by_state=True)


def _host_rooms(pool: Pool, rows: Ints, pod_set: PodSet) -> Ints:
    found = np.full(len(rows), MANY, dtype=np.int64)
    if Reason.HOST_RESOURCES in pool.ledger.ignore:
        return found
    for free, need in zip(pool.now.host, (pod_set.cpu, (pod_set.memory_mib or 0) / MIB_PER_GIB), strict=True):
        if need:
            found = np.minimum(found, (np.maximum(free[rows], 0) / need + SLACK).astype(np.int64))
    return found


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
    ties = (keys <= (best | (1 << CARD_BITS) - 1 if share else best)).nonzero()[0]  # whatever the card's index
    if len(ties) > FEW:
        row = int(ties[_ties(pool, ties).argmin()])
    elif len(ties) > 1:
        row = min(ties.tolist(), key=partial(_tie, pool))
    return Pick(pool.names[row], int(keys[row]) & (1 << CARD_BITS) - 1 if share else None)


def worths(pool: Pool, pod_set: PodSet, job: Job) -> Ints:
    """By row how good the node is for one pod, smaller is better; UNFIT where it has no room."""
    steady = job.kind is Kind.INFERENCE

    def keys() -> Fill:
        found = keys_of(pod_set, pool.ledger)
        return steadied(found) if steady else found

    return pool.column(("worth", pool.ledger.ignore, steady, *pool.kind(pod_set)), keys)


def _ties(pool: Pool, rows: Ints) -> Ints:
    """Of equal places the one on the node with fewer free cards, in the fuller domain, first in the topology."""
    leaf_free = pool.now.leaf_free[pool.leaf[rows]]
    found: Ints = ((pool.now.free[rows] << 24) + leaf_free << 24) + pool.order[rows]
    return found


def _tie(pool: Pool, row: int) -> tuple[int, int, int]:
    """The same of one."""
    now = pool.now
    return now.free.item(row), now.leaf_free.item(pool.leaf.item(row)), pool.order.item(row)
