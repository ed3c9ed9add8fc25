"""Consolidate: move running work together so that a waiting job fits. Everybody goes on running.

A move happens only if every mover has a place that is free now, is movable now (fresh save, past min_runtime) and
loses less than the started job gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpufleet.model.hardware import MigRemake, NodeState
from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Slice, Whole
from gpufleet.placement.column import Fill, one_by_one
from gpufleet.placement.ledger import NodeBook
from gpufleet.placement.pool import pool_of
from gpufleet.scheduling.aside import Mover, lift, step_aside
from gpufleet.scheduling.clearing import frees_enough, on_cheapest_cards, on_cheapest_cells
from gpufleet.scheduling.lost import MICROSECOND, lost_work
from gpufleet.scheduling.moving import is_movable, note_move, pods_left_to_move
from gpufleet.scheduling.regions import Freeable, Source, freed_by, regions
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.victims import ENOUGH
from gpufleet.units import GRAIN

EXACT = 12
"""Up to so many movers on a node every single one and every pair is tried before the greedy way."""
MANY = 64
"""More movers for one job are never considered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trial that worked."""

    lost: int
    worth: tuple[object, ...]
    movers: tuple[Mover, ...]
    nodes: dict[str, list[str]]


def consolidate(session: Session, pending: Pending) -> bool:
    """Start the job by moves, the ones that lose least."""
    key = session.request("consolidate", pending)
    if key in session.notes.hopeless or pods_left_to_move(session) < 1:
        return False
    best = _cheapest_of_all(session, pending) if _has_room_in_all(session, pending) else None
    if best is None:
        session.notes.hopeless.add(key)
        return False
    _carry_out(session, pending, best)
    return True


def _cheapest_of_all(session: Session, pending: Pending) -> Outcome | None:
    """The best of the first few regions that work; where even the lower bound is higher, nothing is tried."""
    found: list[Outcome] = []
    movable = Movable(session)
    for region in regions(session, pending, movable.source):
        if len(found) < ENOUGH and not any(o.lost <= region.price.lost for o in found):
            outcome = _cheapest(session, pending, movable.movers(region.names), region.nodes)
            found += [outcome] if outcome else []
    return min(found, key=lambda o: o.worth, default=None)


def _has_room_in_all(session: Session, pending: Pending) -> bool:
    """Moving frees nothing: there must be room for the whole job already, in pieces. And its quota must allow it."""
    job = pending.job
    for model, names in session.eligible(pending).items():
        grains = session.grains(job, model, job.least_pods)
        if not session.quota_allows(job, model, grains):
            continue
        if int(pool_of(session.ledger, session.topology, names).column("pieces", _pieces).sum()) >= grains:
            return True
    return False


def _pieces() -> Fill:
    """By node, how many grains of room there are on its cards, whatever shape they have."""
    return one_by_one(lambda pool, row: _count_room(pool.books[row]))


def _count_room(book: NodeBook) -> int:
    size = book.node.model.memory_slices
    found = 0
    for index, card in enumerate(book.cards):
        if book.usable[index] and card.whole is None:
            cells = size - card.taken.bit_count()
            found += min(GRAIN * cells // size, GRAIN - card.milli * GRAIN // 1000)
    return found


class Movable:
    """Jobs that could go elsewhere now, by the nodes they stand on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.most: dict[str, int] = {}
        """By model the most free GPUs on a node that takes work: no pod of more whole GPUs could go anywhere."""
        for name, node in session.nodes.items():
            if node.state is NodeState.READY:
                free = len(session.ledger.books[name].free)
                self.most[node.model.name] = max(self.most.get(node.model.name, 0), free)
        self.source = Source(("move", tuple(sorted(self.most.items()))), self.freeable)

    def _on(self, node: str) -> Iterator[tuple[str, tuple[PodPlace, ...]]]:
        """Jobs that stand there with what they hold; not those whose gang is bound to one domain."""
        session = self._session
        for name in session.roster.on.get(node, ()):
            run = session.running[name]
            bound = run.job.topology.required is not None and len(run.places) > 1
            if not bound and is_movable(session, run):
                places, most = session.held[name], self.most.get(session.model_of(name), 0)
                if all(len(p.gpus) <= most for p in places if p.node == node):
                    yield name, places

    def freeable(self, node: str) -> list[Freeable]:
        """What would come free there. A gang of which one pod moves restarts: all its work counts."""
        session, found = self._session, []
        for name, places in self._on(node):
            lost = lost_work(session, session.running[name], places)
            found.append(Freeable(lost, (0, 0, 0.0, name), sum(freed_by(session, p) for p in places if p.node == node)))
        return found

    def movers(self, nodes: Sequence[str]) -> list[Mover]:
        """Who could leave these nodes, cheapest first."""
        session, names = self._session, set(nodes)
        jobs = {name: places for node in nodes for name, places in self._on(node)}
        movers = [
            Mover(job, tuple(p for p in places if p.node in names), lost_work(session, session.running[job], places))
            for job, places in jobs.items()
        ]
        return sorted(movers, key=lambda m: m.order)


def _cheapest(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> Outcome | None:
    gain, most = _gain(session, pending), pods_left_to_move(session)
    best: Outcome | None = None
    for chosen in _choices(session, pending, movers, nodes):
        lost = sum(m.lost for m in chosen)
        worth = (lost, len(chosen), tuple(m.order for m in chosen))
        if (best and best.worth <= worth) or sum(len(m.places) for m in chosen) > most:
            continue
        if lost < gain and frees_enough(session, pending, chosen, nodes) and _works(session, pending, chosen, nodes):
            best = Outcome(lost, worth, tuple(chosen), nodes)
    return best


def _gain(session: Session, pending: Pending) -> int:
    """What starting the job is worth in lost work of others."""
    job = pending.job
    grains = max((session.grains(job, m, job.least_pods) for m in session.eligible(pending)), default=0)
    return session.policy.move_gain // MICROSECOND * grains


def _choices(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> Iterator[Sequence[Mover]]:
    """For one pod, who stands where it is cheapest to clear. Singles and pairs where they are few; for a gang the greedy
    set: the cheapest until the job fits, needless ones out.
    """
    job, demand = pending.job, pending.job.pod_sets[0].demand
    if job.least_pods == 1 and isinstance(demand, Slice) and _remakes_slices(session, nodes):
        yield from on_cheapest_cells(session, pending, demand, movers, nodes)
        return
    whole = job.least_pods == 1 and isinstance(demand, Whole)
    cleared = on_cheapest_cards(session, pending, movers, nodes) if whole else ()
    if cleared:
        yield cleared
    if len(movers) <= EXACT and sum(map(len, nodes.values())) == 1:
        yield from ([m] for m in movers)
        yield from (list(pair) for pair in combinations(movers, 2))
    if not whole:
        yield from _greedy(session, pending, movers, nodes)


def _remakes_slices(session: Session, nodes: dict[str, list[str]]) -> bool:
    return all(session.nodes[name].mig is MigRemake.SLICE for names in nodes.values() for name in names)


def _greedy(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> Iterator[Sequence[Mover]]:
    """The cheapest until the job fits, needless ones out."""
    count = _fewest(session, pending, movers[:MANY], nodes)
    chosen = list(movers[: count or 0])
    for mover in reversed(list(chosen)):
        rest = [m for m in chosen if m is not mover]
        if rest and frees_enough(session, pending, rest, nodes) and _fits_without(session, pending, rest, nodes):
            chosen = rest
    if chosen:
        yield chosen


def _fewest(session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]) -> int | None:
    """How many of the cheapest must go for the job to fit, by halving; None when all together do not help."""

    def fits(count: int) -> bool:
        gone = movers[:count]
        return frees_enough(session, pending, gone, nodes) and _fits_without(session, pending, gone, nodes)

    low, high = 1, len(movers)
    if not movers or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _fits_without(session: Session, pending: Pending, gone: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    mark = session.mark()
    lift(session, gone)
    found = session.fits(pending, nodes)
    session.rollback(mark)
    return found


def _works(session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    mark = session.mark()
    found = step_aside(session, pending, movers, nodes)
    session.rollback(mark)
    return found is not None


def _carry_out(session: Session, pending: Pending, outcome: Outcome) -> None:
    found = step_aside(session, pending, outcome.movers, outcome.nodes)
    assert found is not None, "the trial has shown that it works"
    places, moved = found
    for mover in outcome.movers:
        old, news = moved[mover.job]
        if old:
            note_move(session, mover.job, pending.job.id, old, news, mover.lost)
    session.freed += 1
    session.commit(pending, places)
