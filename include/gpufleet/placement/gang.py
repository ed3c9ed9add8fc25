"""A gang, all of it or none of it, in the smallest domain that holds it (design.md section 7).

Bands, coarse before fine: the level, the tightness of the domain, the fewest child domains (balanced), and inside
the narrowest one the nodes by the room they leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Job, PodSet
from gpufleet.placement.demand import capacities
from gpufleet.placement.fill import LINK_RANK, NoRoom, fill
from gpufleet.placement.ledger import Ledger
from gpufleet.placement.topology import Topology

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
    wanted = gang.wanted()
    for depth, names in _tries(ledger, topology, gang, wanted):
        mark = ledger.mark()
        try:
            places = _pack(ledger, topology, names, wanted, depth, gang.job)
        except NoRoom:
            ledger.rollback(mark)
            continue
        return _ranked(topology, gang.job, places)
    return None


def _tries(ledger: Ledger, topology: Topology, gang: Gang, wanted: Wanted) -> Iterator[tuple[int, Sequence[str]]]:
    """Domains worth a try: narrow levels before broad ones, in a level the tightest first."""
    room = {model: _room(ledger, names, wanted) for model, names in gang.nodes.items()}
    open_models = [m for m in gang.nodes if _enough(room[m], gang.nodes[m], wanted)]
    first, last = topology.first_and_last(gang.job)
    if gang.pods == 1:
        first = last  # one pod has no neighbours to be near
    for depth in range(first, last - 1, -1):
        for model in open_models:
            domains = topology.split(gang.nodes[model], depth)
            fitting = [names for names in domains.values() if _enough(room[model], names, wanted)]
            for names in sorted(fitting, key=lambda n: _tightness(ledger, topology, n)):
                yield depth, names


Room = list[dict[str, int]]
"""For each pod set, how many of its pods each node can take now."""


def _room(ledger: Ledger, names: Sequence[str], wanted: Wanted) -> Room:
    return [capacities(ledger, names, pod_set) for _, pod_set, _ in wanted]


def _enough(room: Room, names: Sequence[str], wanted: Wanted) -> bool:
    """Necessary for all sets, sufficient for one: each set alone has room."""
    return all(
        sum([column[name] for name in names]) >= count for column, (_, _, count) in zip(room, wanted, strict=True)
    )


def _tightness(ledger: Ledger, topology: Topology, names: Sequence[str]) -> tuple[int, int, int]:
    """A node with the faster link, the domain with the least left over, then the order of the topology."""
    link = LINK_RANK[ledger.books[names[0]].node.link] if len(names) == 1 else 0
    return link, _free(ledger, names), min(topology.order[n] for n in names)


def _free(ledger: Ledger, names: Sequence[str]) -> int:
    return sum([len(ledger.books[n].free) for n in names])


def _pack(
    ledger: Ledger, topology: Topology, names: Sequence[str], wanted: Wanted, depth: int, job: Job
) -> list[PodPlace]:
    """Pods into the nodes of one domain, going down level by level to keep them in few child domains."""
    while depth < topology.leaf and len(topology.split(names, depth + 1)) == 1:
        depth += 1
    if depth >= topology.leaf or sum(count for *_, count in wanted) == 1:
        return fill(ledger, topology, names, wanted, job)
    children = list(topology.split(names, depth + 1).values())
    if len(wanted) == 1:
        return _pack_alike(ledger, topology, children, wanted, depth, job)
    return _pack_unlike(ledger, topology, children, wanted, depth, job)


def _pack_alike(
    ledger: Ledger, topology: Topology, children: Sequence[Sequence[str]], wanted: Wanted, depth: int, job: Job
) -> list[PodPlace]:
    """Equal pods: the fewest children that hold them, pods spread evenly over those."""
    index, pod_set, count = wanted[0]
    sized = [(sum(capacities(ledger, names, pod_set).values()), names) for names in children]
    sized.sort(key=lambda s: (-s[0], min(topology.order[n] for n in s[1])))
    chosen = fewest(sized, count)
    places = []
    for share, (_, names) in zip(balanced([c for c, _ in chosen], count), chosen, strict=True):
        if share:
            places += _pack(ledger, topology, names, [(index, pod_set, share)], depth + 1, job)
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


def _pack_unlike(
    ledger: Ledger, topology: Topology, children: Sequence[Sequence[str]], wanted: Wanted, depth: int, job: Job
) -> list[PodPlace]:
    """Unlike pods: the roomiest child, then the two roomiest, ... until they fit."""
    ordered = sorted(children, key=lambda names: (-_free(ledger, names), min(topology.order[n] for n in names)))
    for number in range(1, len(ordered) + 1):
        names = [name for child in ordered[:number] for name in child]
        if not _enough(_room(ledger, names, wanted), names, wanted):
            continue
        mark = ledger.mark()
        try:
            return fill(ledger, topology, names, wanted, job)
        except NoRoom:
            ledger.rollback(mark)
    raise NoRoom


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
