"""A gang, all of it or none of it, in the smallest domain that holds it (design.md section 7).

Bands, coarse before fine: the level, the tightness of the domain, the fewest child domains (balanced), and inside
the narrowest one the nodes by the room they leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Job, PodSet, Whole
from gpufleet.placement.demand import take
from gpufleet.placement.fill import NoRoom, fill
from gpufleet.placement.ledger import Ledger
from gpufleet.placement.pool import Pool, pool_of
from gpufleet.placement.topology import Topology
from gpufleet.placement.worth import pick, rooms

Wanted = list[tuple[int, PodSet, int]]
"""(index of the pod set, the set, how many pods of it)"""


@dataclass(frozen=True, slots=True)
class Gang:
    """A job, how many of its pods (by rank from 0) must be placed, and where it may go by model."""

    job: Job
    pods: int
    nodes: Mapping[str, Sequence[str]]

    def wanted(self) -> Wanted:
        """Pod sets with the number of pods wanted of each, in rank order."""
        found, left = [], self.pods
        for index, pod_set in enumerate(self.job.pod_sets):
            count = min(left, pod_set.count)
            if count:
                found.append((index, pod_set, count))
            left -= count
        return found


def place_gang(ledger: Ledger, topology: Topology, gang: Gang) -> tuple[PodPlace, ...] | None:
    """Places for all pods, written into the ledger, or None and the ledger as before."""
    if gang.pods == 1:
        return _place_one(ledger, topology, gang)
    wanted = gang.wanted()
    for depth, pool in _tries(ledger, topology, gang, wanted):
        mark = ledger.mark()
        try:
            places = _pack(pool, wanted, depth, gang.job)
        except NoRoom:
            ledger.rollback(mark)
            continue
        return _ranked(topology, gang.job, places)
    return None


def holds(ledger: Ledger, topology: Topology, gang: Gang) -> bool | None:
    """Whether there is room for the gang, by counting; None where only placing it tells (unlike pods, parts of cards).

    For equal pods of whole GPUs the room of a domain is the sum of its nodes' rooms, and the broadest level allowed
    holds whatever a narrower one does.
    """
    (_, pod_set, count), *others = gang.wanted()
    if others or not isinstance(pod_set.demand, Whole):
        return None
    last = topology.first_and_last(gang.job)[1]
    pools = (pool_of(ledger, topology, names) for names in gang.nodes.values())
    return any(bool((p.by_domain(last, rooms(p, pod_set)) >= count).any()) for p in pools)


def _place_one(ledger: Ledger, topology: Topology, gang: Gang) -> tuple[PodPlace, ...] | None:
    """One pod has no neighbours to be near: the best node of the first model that has room."""
    ((index, pod_set, _),) = gang.wanted()
    for names in gang.nodes.values():
        if best := pick(pool_of(ledger, topology, names), pod_set, gang.job):
            return (take(ledger, ledger.books[best.node], pod_set, index, gang.job.id, best.gpu),)
    return None


def _tries(ledger: Ledger, topology: Topology, gang: Gang, wanted: Wanted) -> Iterator[tuple[int, Pool]]:
    """Domains worth a try: narrow levels before broad ones, in a level the tightest first."""
    pools = [pool_of(ledger, topology, names) for names in gang.nodes.values()]
    pools = [p for p in pools if all(int(rooms(p, s).sum()) >= count for _, s, count in wanted)]
    first, last = topology.first_and_last(gang.job)
    for depth in range(last if gang.job.topology.spread else first, last - 1, -1):
        for pool in pools:
            for names in _fitting(pool, depth, wanted):
                yield depth, pool_of(ledger, topology, names)


def _fitting(pool: Pool, depth: int, wanted: Wanted) -> list[list[str]]:
    """Domains where each pod set alone has room (necessary for all, sufficient for one), the tightest first.

    A node with the faster link, the domain with the least left over, then the order of the topology.
    """
    ids, groups, first = pool.domains(depth)
    enough = [pool.by_domain(depth, rooms(pool, pod_set)) >= count for _, pod_set, count in wanted]
    fitting = np.flatnonzero(np.logical_and.reduce(enough))
    if not len(fitting):
        return []
    link = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(link, ids, pool.link)
    alone = np.bincount(ids, minlength=len(groups)) == 1
    keys = (first[fitting], pool.by_domain(depth, pool.now.free)[fitting], (link * alone)[fitting])
    return [groups[i] for i in fitting[np.lexsort(keys)]]


def _pack(pool: Pool, wanted: Wanted, depth: int, job: Job) -> list[PodPlace]:
    """Pods into the nodes of one domain, going down level by level to keep them in few child domains."""
    leaf = pool.topology.leaf
    while depth < leaf and len(pool.domains(depth + 1)[1]) == 1:
        depth += 1
    if depth >= leaf or job.topology.spread or sum(count for *_, count in wanted) == 1:
        return fill(pool, wanted, job)
    return (_pack_alike if len(wanted) == 1 else _pack_unlike)(pool, wanted, depth, job)


def _pack_alike(pool: Pool, wanted: Wanted, depth: int, job: Job) -> list[PodPlace]:
    """Equal pods: the fewest children that hold them, pods spread evenly over those."""
    index, pod_set, count = wanted[0]
    _, groups, first = pool.domains(depth + 1)
    sizes = pool.by_domain(depth + 1, rooms(pool, pod_set))
    order = np.lexsort((first, -sizes))
    chosen = fewest([(int(sizes[i]), groups[i]) for i in order], count)
    places = []
    for share, (_, names) in zip(balanced([c for c, _ in chosen], count), chosen, strict=True):
        if share:
            child = pool_of(pool.ledger, pool.topology, names)
            places += _pack(child, [(index, pod_set, share)], depth + 1, job)
    return places


def fewest(sized: Sequence[tuple[int, Sequence[str]]], count: int) -> list[tuple[int, Sequence[str]]]:
    """The fewest domains (given largest first) that hold `count` pods; the last is the smallest that completes it.

    Kueue's BestFit: 7 pods over 3, 3, 2, 1 take 3 + 3 + 1.
    """
    chosen: list[tuple[int, Sequence[str]]] = []
    left = count
    for position, (size, names) in enumerate(sized):
        if size >= left:
            last = min((s for s in sized[position:] if s[0] >= left), key=lambda s: s[0])
            return sorted([*chosen, last], key=lambda s: s[0])
        chosen.append((size, names))
        left -= size
    raise NoRoom


def balanced(sizes: Sequence[int], count: int) -> list[int]:
    """Pods for each domain (sizes ascending) as even as they allow."""
    shares, left = [], count
    for position, size in enumerate(sizes):
        shares.append(min(size, left // (len(sizes) - position)))
        left -= shares[-1]
    return shares


def _pack_unlike(pool: Pool, wanted: Wanted, depth: int, job: Job) -> list[PodPlace]:
    """Unlike pods: the roomiest child, then the two roomiest, ... until they fit; evenly over those where that goes."""
    _, groups, first = pool.domains(depth + 1)
    ledger, mark = pool.ledger, pool.ledger.mark()
    order = np.lexsort((first, -pool.by_domain(depth + 1, pool.now.free)))
    sums = [(np.cumsum(pool.by_domain(depth + 1, rooms(pool, s))[order]), count) for _, s, count in wanted]
    least = max(int(np.searchsorted(upto, count)) + 1 for upto, count in sums)
    for number in range(least, len(order) + 1):
        children = [groups[i] for i in order[:number]]
        for way in (_evenly, _together):
            try:
                return way(pool, wanted, children, depth, job)
            except NoRoom:
                ledger.rollback(mark)
    raise NoRoom


def _together(pool: Pool, wanted: Wanted, children: Sequence[list[str]], depth: int, job: Job) -> list[PodPlace]:
    """As if they were one domain."""
    return fill(Pool(pool.ledger, pool.topology, [name for names in children for name in names]), wanted, job)


def _evenly(pool: Pool, wanted: Wanted, children: Sequence[list[str]], depth: int, job: Job) -> list[PodPlace]:
    """Every child gets its part of the GPUs, and of as few sets as that allows; whole GPUs only."""
    if len(children) == 1 or not all(isinstance(s.demand, Whole) and s.demand.gpus for _, s, _ in wanted):
        raise NoRoom
    pools = [pool_of(pool.ledger, pool.topology, names) for names in children]
    places = []
    for child, some in zip(pools, _parts(pools, wanted), strict=True):
        places += _pack(child, some, depth + 1, job) if some else []
    return places


def _parts(pools: Sequence[Pool], wanted: Wanted) -> list[list[tuple[int, PodSet, int]]]:
    """Which pods each child gets: the largest set first, to whoever lacks most of its part; what is over, where it fits."""
    due = [sum(count * _gpus(pod_set) for _, pod_set, count in wanted) / len(pools)] * len(pools)
    parts: list[dict[int, int]] = [{} for _ in pools]
    for index, pod_set, count in sorted(wanted, key=lambda w: (-w[2] * _gpus(w[1]), w[0])):
        room = [int(rooms(pool, pod_set).sum()) for pool in pools]
        gpus, left = _gpus(pod_set), count
        for bounded in (True, False):
            for child in sorted(range(len(pools)), key=lambda c: (-due[c], c)):
                pods = min(left, room[child], max(0, round(due[child] / gpus)) if bounded else left)
                parts[child][index] = parts[child].get(index, 0) + pods
                due[child], room[child], left = due[child] - pods * gpus, room[child] - pods, left - pods
        assert not left, "the caller took children with room for every set"
    return [[(i, s, part[i]) for i, s, _ in wanted if part[i]] for part in parts]


def _gpus(pod_set: PodSet) -> int:
    return pod_set.demand.gpus if isinstance(pod_set.demand, Whole) else 0


def _ranked(topology: Topology, job: Job, places: Sequence[PodPlace]) -> tuple[PodPlace, ...]:
    """Ranks along the topology: in a set neighbours have neighbouring ranks, starting near the first pod."""
    ordered: list[PodPlace] = []
    home = None
    for pod_set in range(len(job.pod_sets)):
        mine = [p for p in places if p.pod_set == pod_set]
        mine.sort(key=lambda p: (*_away(topology, home, p.node), topology.order[p.node], p.devices))
        home = home or (mine[0].node if mine else None)
        ordered += mine
    return tuple(replace(place, rank=rank) for rank, place in enumerate(ordered))


def _away(topology: Topology, home: str | None, node: str) -> tuple[bool, ...]:
    if home is None:
        return ()
    return tuple(a != b for a, b in zip(topology.paths[home], topology.paths[node], strict=True))
