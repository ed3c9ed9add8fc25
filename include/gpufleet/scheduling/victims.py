"""Whom to stop so that a job fits: greedily by lost work, then filled back so that none is stopped in vain.

A trial happens in a region (a node, a domain). The cheapest region wins. Nothing is decided that does not, tried out
on the ledger, let the job start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpufleet.model.plan import Eviction
from gpufleet.model.snapshot import Pending, PodPlace, Running
from gpufleet.model.workload import Kind
from gpufleet.scheduling.lost import gpu_hours, lost_work
from gpufleet.scheduling.regions import Freeable, Region, Source, Tie, freed_by, regions
from gpufleet.scheduling.roster import Sort
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN

FEW = 64
"""Up to so many units a second order is tried as well, and the search for enough of them begins there."""

ENOUGH = 3
"""Regions that work before the search ends: they come cheapest estimate first."""

Allowed = Callable[[Running], bool]
"""Whether a running job may be made to give work back as things stand, by its queue, GPU model and priority."""

Among = Iterable[tuple[Sort, Running]]
"""Sorts of jobs to ask that about, each with one job of it."""


class Unit:
    """What leaves together: a surplus pod of an elastic job (`rank`), or all that is left of a job (None)."""

    __slots__ = ("job", "lost", "order", "rank", "tie")

    def __init__(self, job: str, rank: int | None, lost: int, tie: Tie) -> None:
        self.job, self.rank, self.lost, self.tie = job, rank, lost, tie
        self.order = (rank is None, lost, tie, -(rank or 0))
        """Surplus first; then lost work; of equal lost work the tie (`regions.Tie`); the last pods first."""


class Units:
    """What is remembered about one job's units, for the places it holds."""

    __slots__ = ("freeable", "places", "units")

    def __init__(self, session: Session, run: Running, places: tuple[PodPlace, ...]) -> None:
        queue, model = run.job.queue, session.model_of(run.job.id)
        at_home = session.rights.is_within_any((session.tree.top.get(queue, queue),), model)
        tie: Tie = (int(at_home), run.job.priority, -run.started_at.timestamp(), run.job.id)
        self.places = places
        self.units = [Unit(run.job.id, None, lost_work(session, run, places), tie)]
        if len(places) > run.job.least_pods:
            self.units += [Unit(run.job.id, p.rank, lost_work(session, run, [p]), tie) for p in places]
        self.freeable: dict[str, Freeable] = {}
        for place in places:
            before = self.freeable.get(place.node)
            grains = freed_by(session, place) + (before.grains if before else 0)
            self.freeable[place.node] = Freeable(self.units[0].lost, tie, grains)


@dataclass(frozen=True, slots=True)
class Taken:
    """A unit taken away in a trial, and the places it held."""

    unit: Unit
    places: tuple[PodPlace, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """What one region costs."""

    lost: int
    worth: tuple[object, ...]
    units: tuple[Unit, ...]
    nodes: dict[str, list[str]]


def stop_and_start(session: Session, pending: Pending, among: Among, allowed: Allowed, why: str) -> bool:
    """Stop the cheapest allowed victims that let the job start, and start it; False (nothing changed) if none do."""
    near = Near(session, pending, among, allowed)
    best = _cheapest(session, pending, allowed, near) if near.sorts else None
    if best is None:
        return False
    taken = [_take(session, unit) for unit in best.units]
    places = session.start(pending, best.nodes)
    assert places is not None, "the trial has shown that it fits"
    session.evictions += _evictions(session, pending, taken, why)
    session.freed += 1
    session.commit(pending, places, sorted({t.unit.job for t in taken}))
    for one in taken:  # what is left of an elastic job is lost for less, wherever it stands
        for place in session.held[one.unit.job]:
            session.ledger.books[place.node].memo.clear()
    return True


def _cheapest(session: Session, pending: Pending, allowed: Allowed, near: Near) -> Trial | None:
    """The best of the first few regions that work; where even the lower bound is higher, nothing is tried."""
    found: list[Trial] = []
    for region in regions(session, pending, Source(near.number, near.freeable)):
        if len(found) < ENOUGH and not any(t.lost <= region.price.lost for t in found):
            trial = _try(session, pending, allowed, near.units(region.names), region)
            found += [trial] if trial else []
    return min(found, key=lambda t: t.worth, default=None)


class Near:
    """Whom a waiting job may think of, by the nodes they stand on."""

    def __init__(self, session: Session, pending: Pending, among: Among, allowed: Allowed) -> None:
        """A service is never stopped for the sake of training."""
        self._session = session
        service = pending.job.kind is Kind.INFERENCE
        self.sorts = frozenset(sort for sort, run in among if (service or not sort.service) and allowed(run))
        self.number = session.notes.sort_sets.setdefault(self.sorts, len(session.notes.sort_sets))

    def _on(self, node: str) -> Iterator[Units]:
        roster = self._session.roster
        for name in roster.on.get(node, ()):
            if roster.sort_of.get(name) in self.sorts and (found := self._units_of(name)):
                yield found

    def _units_of(self, name: str) -> Units | None:
        """All that is left of a job, and each pod it could spare; remembered while nothing is taken from it."""
        session, places = self._session, self._session.held[name]
        if not places or name in session.moved:
            return None
        known: Units | None = session.notes.units.get(name)
        if known is None or known.places is not places:
            known = session.notes.units[name] = Units(session, session.running[name], places)
        return known

    def freeable(self, node: str) -> list[Freeable]:
        """What would come free there."""
        return [found.freeable[node] for found in self._on(node) if node in found.freeable]

    def units(self, nodes: Sequence[str]) -> list[Unit]:
        """Units with a pod on one of these nodes, in their order."""
        names, jobs = set(nodes), {id(u): u for node in nodes for u in self._on(node)}
        found = []
        for units in jobs.values():
            ranks = {p.rank for p in units.places if p.node in names}
            found += [u for u in units.units if ranks and (u.rank is None or u.rank in ranks)]
        return sorted(found, key=lambda u: u.order)


def _try(session: Session, pending: Pending, allowed: Allowed, near: Sequence[Unit], region: Region) -> Trial | None:
    """The cheaper of two greedy orders: by lost work, and by lost work for each GPU that comes free here."""
    names = set(region.names)
    first = _try_in_order(session, pending, allowed, near, region)
    if first is None or first.lost <= region.price.lost or len(near) > FEW:
        return first
    dense = sorted(near, key=lambda u: _density(session, u, names))
    second = _try_in_order(session, pending, allowed, dense, region) if dense != near else None
    return min((t for t in (first, second) if t), key=lambda t: t.worth)


def _density(session: Session, unit: Unit, names: set[str]) -> tuple[object, ...]:
    here = session.cost([p for p in _places(session, unit) if p.node in names])
    return unit.rank is None, unit.lost * GRAIN // max(here, 1), unit.order


def _try_in_order(
    session: Session, pending: Pending, allowed: Allowed, near: Sequence[Unit], region: Region
) -> Trial | None:
    base = session.mark()
    count = _fewest(session, pending, allowed, near, region.nodes)
    if count is None:
        session.rollback(base)
        return None
    kept = _fill_back(session, pending, _take_first(session, allowed, near, count), region.nodes)
    session.rollback(base)
    lost = sum(t.unit.lost for t in kept)
    worth = (lost, len(kept), tuple(t.unit.order[1:] for t in kept))
    return Trial(lost, worth, tuple(t.unit for t in kept), region.nodes)


def _places(session: Session, unit: Unit) -> tuple[PodPlace, ...]:
    return tuple(p for p in session.held[unit.job] if unit.rank is None or p.rank == unit.rank)


def _take(session: Session, unit: Unit) -> Taken:
    places = _places(session, unit)
    session.take_away(unit.job, [p.rank for p in places])
    return Taken(unit, places)


def _take_first(session: Session, allowed: Allowed, units: Sequence[Unit], count: int) -> list[Taken]:
    """The first `count` units that may leave, each judged with those before it gone."""
    taken = []
    for unit in units[:count]:
        run, places = session.running[unit.job], session.held[unit.job]
        spare = len(places) - run.job.least_pods
        if _places(session, unit) and (unit.rank is None or spare > 0) and allowed(run):
            taken.append(_take(session, unit))
    return taken


def _fewest(
    session: Session, pending: Pending, allowed: Allowed, units: Sequence[Unit], nodes: dict[str, list[str]]
) -> int | None:
    """The shortest run of units with which the job fits, by halving; None when all together do not help."""

    def fits(count: int) -> bool:
        mark = session.mark()
        taken = _take_first(session, allowed, units, count)
        found = bool(taken) and session.fits(pending, nodes)
        session.rollback(mark)
        return found

    low, high = 1, min(FEW, len(units))
    while not fits(high):
        if high == len(units):
            return None
        low, high = high + 1, min(4 * high, len(units))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _fill_back(session: Session, pending: Pending, taken: Sequence[Taken], nodes: dict[str, list[str]]) -> list[Taken]:
    """Put back, dearest first, whoever is not needed for the job to fit."""
    whole = {t.unit.job for t in taken if t.unit.rank is None}
    kept = _merged(taken, whole)
    for one in sorted(kept, key=lambda t: t.unit.order, reverse=True):
        if len(kept) == 1:
            break
        mark = session.mark()
        session.give_back(one.unit.job, one.places)
        if session.fits(pending, nodes):
            kept.remove(one)
        else:
            session.rollback(mark)
    return kept


def _merged(taken: Sequence[Taken], whole: set[str]) -> list[Taken]:
    """A job that leaves as a whole leaves at once, its surplus pods with it."""
    found = [t for t in taken if t.unit.job not in whole]
    for one in taken:
        if one.unit.rank is None:
            places = tuple(p for t in taken if t.unit.job == one.unit.job for p in t.places)
            found.append(Taken(one.unit, places))
    return found


def _evictions(session: Session, pending: Pending, taken: Sequence[Taken], why: str) -> list[Eviction]:
    """One entry per victim."""
    gone = {t.unit.job: tuple(p for u in taken if u.unit.job == t.unit.job for p in u.places) for t in taken}
    return [eviction(session, pending, name, places, why) for name, places in sorted(gone.items())]


def eviction(session: Session, pending: Pending, name: str, places: Sequence[PodPlace], why: str) -> Eviction:
    """These pods of a running job stop for the waiting one; `ranks` None where all its pods leave here."""
    run = session.running[name]
    return Eviction(
        name,
        pending.job.id,
        "preempt" if run.job.queue == pending.job.queue else why,
        gpu_hours(lost_work(session, run, places)),
        None if len(places) == len(run.places) else tuple(sorted(p.rank for p in places)),
        run.job.kind is not Kind.INFERENCE,
    )
