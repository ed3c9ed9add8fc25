"""Consolidate: move running work together so that a waiting job fits. Everybody goes on running.

A move happens only if every mover has a place that is free now, is movable now (fresh save, past min_runtime) and
loses less than the started job gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gpufleet.model.plan import Move
from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Demand, Kind, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.placement import Gang, place_gang
from gpufleet.placement.ledger import NodeBook
from gpufleet.scheduling.ever import whole_gpus
from gpufleet.scheduling.lost import MICROSECOND, gpu_hours, lost_work
from gpufleet.scheduling.regions import Freeable, freed_by, regions
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.victims import ENOUGH, is_protected
from gpufleet.units import GRAIN

EXACT = 12
"""Up to so many movers on a node every single one and every pair is tried before the greedy way."""
MANY = 64
"""More movers for one job are never considered."""


@dataclass(frozen=True, slots=True)
class Mover:
    """Pods of one job that would leave a region."""

    job: str
    places: tuple[PodPlace, ...]
    lost: int

    @property
    def order(self) -> tuple[object, ...]:
        return self.lost, len(self.places), self.job


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
    if key in session.hopeless or not _has_room_in_all(session, pending):
        return False
    best = _cheapest_of_all(session, pending)
    if best is None:
        session.hopeless.add(key)
        return False
    _carry_out(session, pending, best)
    return True


def _cheapest_of_all(session: Session, pending: Pending) -> Outcome | None:
    """The best of the first few regions that work; where even the lower bound is higher, nothing is tried."""
    found: list[Outcome] = []
    for region in regions(session, pending, _movable(session)):
        if len(found) < ENOUGH and not any(o.lost <= region.price.lost for o in found):
            outcome = _cheapest(session, pending, region.nodes)
            found += [outcome] if outcome else []
    return min(found, key=lambda o: o.worth, default=None)


def _has_room_in_all(session: Session, pending: Pending) -> bool:
    """Moving frees nothing: there must be room for the whole job already, in pieces. And its quota must allow it."""
    job = pending.job
    for model, names in session.eligible(pending).items():
        grains = session.grains(job, model, job.least_pods)
        if not session.quota_allows(job, model, grains):
            continue
        if not all(isinstance(s.demand, Whole) for s in job.pod_sets):
            return True
        if sum(_room(session, name) for name in names) >= grains:
            return True
    return False


def _room(session: Session, name: str) -> int:
    """Grains not in use on the node's healthy cards, pieces of cards included."""
    book = session.ledger.books[name]
    if "room" not in book.memo:
        book.memo["room"] = _count_room(book)
    return int(book.memo["room"])


def _count_room(book: NodeBook) -> int:
    size = book.node.model.memory_slices
    found = 0
    for index, card in enumerate(book.cards):
        if book.usable[index] and card.whole is None:
            cells = size - card.taken.bit_count()
            found += min(GRAIN * cells // size, GRAIN - card.milli * GRAIN // 1000)
    return found


def _may_move(session: Session, job: str) -> bool:
    run = session.running[job]
    moved = any(m.job == job for m in session.moves)
    whole = len(session.held[job]) == len(run.places)
    bound = run.job.topology.required is not None and len(run.places) > 1
    if not run.job.preemptible or run.job.kind is Kind.INFERENCE or moved or not whole or bound:
        return False
    return session.since_save(run) <= session.policy.fresh_checkpoint and not is_protected(session, run)


def _movable(session: Session) -> dict[str, list[Freeable]]:
    found: dict[str, list[Freeable]] = {}
    for name, run in session.running.items():
        if _may_move(session, name):
            lost = lost_work(session, run, session.held[name])
            for place in session.held[name]:
                item = Freeable(lost, (0, 0.0, name), freed_by(session, place))
                found.setdefault(place.node, []).append(item)
    return found


def _movers(session: Session, nodes: dict[str, list[str]]) -> list[Mover]:
    """Who could leave the region, cheapest first. A gang of which one pod moves restarts: all its work counts."""
    names = {name for group in nodes.values() for name in group}
    movers = []
    for job in session.running:
        places = tuple(p for p in session.held[job] if p.node in names)
        if places and _may_move(session, job):
            movers.append(Mover(job, places, lost_work(session, session.running[job], session.held[job])))
    return sorted(movers, key=lambda m: m.order)


def _cheapest(session: Session, pending: Pending, nodes: dict[str, list[str]]) -> Outcome | None:
    movers, gain = _movers(session, nodes), _gain(session, pending)
    best: Outcome | None = None
    for chosen in _choices(session, pending, movers, nodes):
        lost = sum(m.lost for m in chosen)
        worth = (lost, len(chosen), tuple(m.order for m in chosen))
        if best and best.worth <= worth:
            continue
        if lost < gain and _frees_enough(session, pending, chosen, nodes) and _works(session, pending, chosen, nodes):
            best = Outcome(lost, worth, tuple(chosen), nodes)
    return best


def _frees_enough(session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    """Cheap and necessary: what is free and what would be is as much as whole GPUs need."""
    need = whole_gpus(pending.job) * GRAIN
    free = sum(len(session.ledger.books[n].free) for names in nodes.values() for n in names) * GRAIN
    return free + sum(freed_by(session, p) for m in movers for p in m.places) >= need


def _gain(session: Session, pending: Pending) -> int:
    """What starting the job is worth in lost work of others."""
    job = pending.job
    grains = max((session.grains(job, m, job.least_pods) for m in session.eligible(pending)), default=0)
    return session.policy.move_gain // MICROSECOND * grains


def _choices(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> Iterator[Sequence[Mover]]:
    """Singles and pairs where they are few; then the greedy set: the cheapest until the job fits, needless ones out."""
    if len(movers) <= EXACT and sum(map(len, nodes.values())) == 1:
        yield from ([m] for m in movers)
        yield from (list(pair) for pair in combinations(movers, 2))
    chosen: list[Mover] = []
    for mover in movers[:MANY]:
        chosen.append(mover)
        if _fits_without(session, pending, chosen, nodes):
            break
    else:
        return
    for mover in reversed(list(chosen)):
        rest = [m for m in chosen if m is not mover]
        if rest and _fits_without(session, pending, rest, nodes):
            chosen = rest
    yield chosen


def _fits_without(session: Session, pending: Pending, gone: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    mark = session.mark()
    _lift(session, gone)
    found = session.start(pending, nodes)
    session.rollback(mark)
    return found is not None


def _lift(session: Session, movers: Sequence[Mover]) -> None:
    for mover in movers:
        session.take_away(mover.job, [p.rank for p in mover.places])


def _works(session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]) -> bool:
    mark = session.mark()
    found = _attempt(session, pending, movers, nodes)
    session.rollback(mark)
    return found is not None


Moved = dict[str, tuple[PodPlace, ...]]


def _attempt(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> tuple[tuple[PodPlace, ...], Moved] | None:
    """Start the job with the movers gone, then find them places that are free now: nobody waits for another mover."""
    _lift(session, movers)
    places = session.start(pending, nodes)
    if places is None:
        return None
    for mover in movers:
        for place in mover.places:
            session.ledger.hold(place, _holder(mover))
    moved: Moved = {}
    for mover in sorted(movers, key=lambda m: (-session.cost(m.places), m.job)):
        found = _elsewhere(session, mover)
        if found is None:
            return None
        moved[mover.job] = found
    for mover in movers:
        session.ledger.lift(_holder(mover), sorted({p.node for p in mover.places}))
    return places, moved


def _holder(mover: Mover) -> str:
    return f"~{mover.job}"


def _elsewhere(session: Session, mover: Mover) -> tuple[PodPlace, ...] | None:
    """New places for exactly what the pods have, on the same GPU model."""
    run = session.running[mover.job]
    model = session.nodes[mover.places[0].node].model.name
    sets = tuple(PodSet(1, same(p), p.cpu, p.memory_mib) for p in mover.places)
    job = replace(run.job, pod_sets=sets, min_members=None, models=(model,), topology=TopologyWish())
    nodes = session.eligible(Pending(job))
    found = place_gang(session.ledger, session.topology, Gang(job, len(sets), nodes))
    if found is None:
        return None
    mine = sorted(found, key=lambda p: p.pod_set)
    return tuple(replace(new, pod_set=old.pod_set, rank=old.rank) for new, old in zip(mine, mover.places, strict=True))


def same(place: PodPlace) -> Demand:
    """The demand that is served by exactly what a place is."""
    if place.slices:
        return Slice(profile=place.slices[0].instance.profile)
    if place.shares:
        return Share(place.shares[0].milli, place.shares[0].memory_mib)
    return Whole(len(place.gpus))


def _carry_out(session: Session, pending: Pending, outcome: Outcome) -> None:
    found = _attempt(session, pending, outcome.movers, outcome.nodes)
    assert found is not None, "the trial has shown that it works"
    places, moved = found
    for mover in outcome.movers:
        news = moved[mover.job]
        session.note_moved(mover.job, news)
        sources = tuple(p.node for p in mover.places)
        session.moves.append(Move(mover.job, pending.job.id, news, sources, gpu_hours(mover.lost)))
    session.freed += 1
    session.commit(pending, places)
