"""Pods into the nodes of one narrow domain: by the room they leave, exactly where pods are unlike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Demand, Job, Kind, PodSet, Share, Slice, Whole
from gpufleet.placement.binpack import assign
from gpufleet.placement.demand import MANY, take
from gpufleet.placement.keys import UNFIT, destroyed
from gpufleet.placement.ledger import Ledger, NodeBook
from gpufleet.placement.pool import Pool
from gpufleet.placement.potential import Ints
from gpufleet.placement.worth import pick, rooms, worths
from gpufleet.units import MIB_PER_GIB

Wanted = Sequence[tuple[int, PodSet, int]]


class NoRoom(Exception):
    """These nodes do not hold these pods."""


def fill(pool: Pool, wanted: Wanted, job: Job) -> list[PodPlace]:
    """Places for all wanted pods on the pool's nodes; raises NoRoom (the caller rolls back)."""
    ledger, mark = pool.ledger, pool.ledger.mark()
    largest_first = sorted(wanted, key=lambda w: _largest_first(w[1].demand, w[0]))
    try:
        return _in_order(pool, largest_first, job)
    except NoRoom:
        if len(wanted) == 1 or job.topology.spread:
            raise
        ledger.rollback(mark)
    if all(isinstance(s.demand, Whole) for _, s, _ in wanted):
        return _fill_exactly(pool, wanted, job)
    # What a card takes only one of (a media engine) must spread over cards before large slices fill them.
    return _in_order(pool, sorted(largest_first, key=lambda w: "+" not in (_profile(w[1].demand) or "")), job)


def _profile(demand: Demand) -> str | None:
    return demand.profile if isinstance(demand, Slice) else None


def _in_order(pool: Pool, wanted: Wanted, job: Job) -> list[PodPlace]:
    places: list[PodPlace] = []
    for index, pod_set, count in wanted:
        places += _way(pod_set, count, job)(pool, (index, pod_set, count), job)
    return places


Way = Callable[[Pool, tuple[int, PodSet, int], Job], list[PodPlace]]


def _way(pod_set: PodSet, count: int, job: Job) -> Way:
    if job.topology.spread:
        return _spread
    return _fill_nodes if isinstance(pod_set.demand, Whole) and count > 1 else _one_by_one


def _largest_first(demand: Demand, index: int) -> tuple[int, int, int, int]:
    """Whole GPUs, then slices by memory (that grid is the scarcer one) and compute, then shares."""
    match demand:
        case Whole(gpus):
            return 0, -gpus, 0, index
        case Slice(profile=str(profile)):
            return 1, -_number_before("gb", profile) * MIB_PER_GIB, -_number_before("g.", profile), index
        case Slice(memory, compute):
            return 1, -memory, -compute, index
        case Share(milli, memory):
            return 2, -milli, -memory, index


def _number_before(unit: str, profile: str) -> int:
    """`1g.20gb` -> 20 before gb, 1 before g. Only for the order in which slices are placed."""
    found = re.search(rf"(\d+){re.escape(unit)}", profile)
    return int(found[1]) if found else 0


def _fill_nodes(pool: Pool, wanted: tuple[int, PodSet, int], job: Job) -> list[PodPlace]:
    """Equal pods on whole GPUs: the nodes in order of worth, each filled before the next."""
    index, pod_set, left = wanted
    room = rooms(pool, pod_set)
    places: list[PodPlace] = []
    for row in _best_first(pool, pod_set, room, left, job):
        for _ in range(min(int(room[row]), left)):
            places.append(take(pool.ledger, pool.books[row], pod_set, index, job.id))
            left -= 1
        if not left:
            return places
    raise NoRoom


def _best_first(pool: Pool, pod_set: PodSet, room: Ints, pods: int, job: Job) -> list[int]:
    """Rows with room: link, steadiness, the rest left, instances destroyed, the hole's size, the domain's room."""
    assert isinstance(pod_set.demand, Whole)
    gpus = pod_set.demand.gpus
    rows = np.flatnonzero(room)
    free = pool.now.free[rows]
    left = free - np.minimum(room[rows], pods) * gpus
    link = pool.link[rows] if gpus > 1 else np.zeros_like(left)
    steady = pool.steady[rows] if job.kind is Kind.INFERENCE else np.zeros_like(left)
    keys = (
        pool.order[rows],
        pool.now.leaf_free[pool.leaf[rows]],
        free,
        destroyed(pool, rows, left),
        left,
        steady,
        link,
    )
    return [int(row) for row in rows[np.lexsort(keys)]]


def _one_by_one(pool: Pool, wanted: tuple[int, PodSet, int], job: Job) -> list[PodPlace]:
    """Each pod where it leaves the most room."""
    index, pod_set, count = wanted
    places = []
    for _ in range(count):
        best = pick(pool, pod_set, job)
        if best is None:
            raise NoRoom
        places.append(take(pool.ledger, pool.ledger.books[best.node], pod_set, index, job.id, best.gpu))
    return places


def _spread(pool: Pool, wanted: tuple[int, PodSet, int], job: Job) -> list[PodPlace]:
    """Each pod where the domain has the fewest of this set; among those where it leaves the most room."""
    index, pod_set, count = wanted
    ids, groups, _ = pool.domains(pool.topology.depth[job.topology.spread or ""])
    pods = np.zeros(len(groups), dtype=np.int64)
    places = []
    for _ in range(count):
        fits = worths(pool, pod_set, job) != UNFIT
        if not fits.any():
            raise NoRoom
        fewest = pods[ids[fits]].min()
        best = pick(pool, pod_set, job, fits & (pods[ids] == fewest))
        assert best is not None, "one of these rows has room"
        pods[ids[pool.names.index(best.node)]] += 1
        places.append(take(pool.ledger, pool.ledger.books[best.node], pod_set, index, job.id, best.gpu))
    return places


def _fill_exactly(pool: Pool, wanted: Wanted, job: Job) -> list[PodPlace]:
    """Unlike pods on whole GPUs that a greedy pass could not place: search, within a budget."""
    pods = [(index, pod_set) for index, pod_set, count in wanted for _ in range(count)]
    needs = [_vector(pod_set) for _, pod_set in pods]
    ledger, books = pool.ledger, pool.books
    chosen = assign(needs, [_left(ledger, book) for book in books])
    if chosen is None:
        raise NoRoom
    return [
        take(ledger, books[where], pod_set, index, job.id) for (index, pod_set), where in zip(pods, chosen, strict=True)
    ]


def _left(ledger: Ledger, book: NodeBook) -> tuple[float, float, float]:
    if Reason.HOST_RESOURCES in ledger.ignore:
        return len(book.free), MANY, MANY
    return (
        len(book.free),
        MANY if book.cpu is None else book.cpu,
        MANY if book.memory_mib is None else book.memory_mib,
    )


def _vector(pod_set: PodSet) -> tuple[float, float, float]:
    gpus = pod_set.demand.gpus if isinstance(pod_set.demand, Whole) else 0
    return gpus, pod_set.cpu or 0, pod_set.memory_mib or 0
