"""Pods into the nodes of one narrow domain: by the room they leave, exactly where pods are unlike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Link, Node
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Demand, Job, Kind, PodSet, Share, Slice, Whole
from gpufleet.placement.binpack import assign
from gpufleet.placement.demand import MANY, best_spot, capacities, capacity, take
from gpufleet.placement.ledger import Ledger, NodeBook
from gpufleet.placement.topology import Topology
from gpufleet.units import MIB_PER_GIB

Wanted = Sequence[tuple[int, PodSet, int]]

LINK_RANK = {Link.NVSWITCH: 0, Link.NVLINK_PAIRS: 1, Link.PCIE: 2}
# Work that must not be interrupted is kept off spot where it left the choice open (design.md section 1).
STEADY_RANK = {CapacityType.OWNED: 0, CapacityType.RESERVED: 0, CapacityType.ON_DEMAND: 1, CapacityType.SPOT: 2}


class NoRoom(Exception):
    """These nodes do not hold these pods."""


def fill(ledger: Ledger, topology: Topology, names: Sequence[str], wanted: Wanted, job: Job) -> list[PodPlace]:
    """Places for all wanted pods on these nodes; raises NoRoom (the caller rolls back)."""
    mark = ledger.mark()
    try:
        places: list[PodPlace] = []
        for index, pod_set, count in sorted(wanted, key=lambda w: _largest_first(w[1].demand, w[0])):
            if isinstance(pod_set.demand, Whole):
                places += _fill_whole(ledger, topology, names, (index, pod_set, count), job)
            else:
                places += _fill_parts(ledger, topology, names, (index, pod_set, count), job)
        return places
    except NoRoom:
        if len(wanted) == 1 or not all(isinstance(s.demand, Whole) for _, s, _ in wanted):
            raise
        ledger.rollback(mark)
        return _fill_exactly(ledger, names, wanted, job)


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


def _fill_whole(
    ledger: Ledger, topology: Topology, names: Sequence[str], wanted: tuple[int, PodSet, int], job: Job
) -> list[PodPlace]:
    """Equal pods on whole GPUs: the nodes in order of worth, each filled before the next."""
    index, pod_set, left = wanted
    room = capacities(ledger, names, pod_set)
    leaves = _leaf_room(ledger, topology, names)
    open_nodes = [name for name in names if room[name]]
    open_nodes.sort(key=lambda n: _worth(ledger.books[n], pod_set, min(room[n], left), job, leaves[n], topology))
    places: list[PodPlace] = []
    for name in open_nodes:
        for _ in range(min(room[name], left)):
            places.append(take(ledger, ledger.books[name], pod_set, index, job.id))
            left -= 1
        if not left:
            return places
    raise NoRoom


def _leaf_room(ledger: Ledger, topology: Topology, names: Sequence[str]) -> dict[str, int]:
    """Free GPUs in each node's narrowest domain, so that of two equal holes the one in the fuller domain is taken."""
    found = {}
    for domain in topology.split(names, topology.leaf).values():
        free = sum(len(ledger.books[n].free) for n in domain)
        found.update(dict.fromkeys(domain, free))
    return found


def _worth(book: NodeBook, pod_set: PodSet, pods: int, job: Job, leaf_room: int, topology: Topology) -> tuple[int, ...]:
    """Smaller is better: link, steadiness, the rest left, instances destroyed, the hole's size, the domain's room."""
    gpus = pod_set.demand.gpus if isinstance(pod_set.demand, Whole) else 0
    free = len(book.free)
    left = free - pods * gpus
    link = LINK_RANK[book.node.link] if gpus > 1 else 0
    cut = sum(1 for i in book.free if book.cards[i].free) if book.cut else 0
    destroyed = max(0, cut - left)
    return (link, steadiness(job, book.node), left, destroyed, free, leaf_room, topology.order[book.node.name])


def steadiness(job: Job, node: Node) -> int:
    """0 unless the job must not be interrupted and the node may be."""
    return STEADY_RANK[node.capacity] if job.kind is Kind.INFERENCE else 0


def _fill_parts(
    ledger: Ledger, topology: Topology, names: Sequence[str], wanted: tuple[int, PodSet, int], job: Job
) -> list[PodPlace]:
    """Slices and shares one by one, each where it leaves the most room."""
    index, pod_set, count = wanted
    demand = pod_set.demand
    assert isinstance(demand, Slice | Share)
    places = []
    for _ in range(count):
        best: tuple[tuple[int, ...], str] | None = None
        for name in names:
            book = ledger.books[name]
            if capacity(ledger, book, pod_set) and (spot := best_spot(ledger, book, demand)):
                worth = (steadiness(job, book.node), *spot.worth[:-1], len(book.free), topology.order[name])
                best = min(best, (worth, name)) if best else (worth, name)
        if best is None:
            raise NoRoom
        places.append(take(ledger, ledger.books[best[1]], pod_set, index, job.id))
    return places


def _fill_exactly(ledger: Ledger, names: Sequence[str], wanted: Wanted, job: Job) -> list[PodPlace]:
    """Unlike pods on whole GPUs that a greedy pass could not place: search, within a budget."""
    pods = [(index, pod_set) for index, pod_set, count in wanted for _ in range(count)]
    needs = [_vector(pod_set) for _, pod_set in pods]
    books = [ledger.books[name] for name in names]
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
