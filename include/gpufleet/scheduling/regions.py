"""Where making room is worth a trial: nodes for one pod, domains for a gang; the cheapest by estimate first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Whole
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN

MOST_PER_LEVEL, MOST = 6, 10
"""Regions tried. Chosen by feeling: enough that estimate and truth seldom part, few enough to stay quick."""

Tie = tuple[int, float, str]
"""Of equal lost work: lower priority, later start, name."""


@dataclass(frozen=True, slots=True, order=True)
class Freeable:
    """Something that could leave a node, or move away: what is lost by it, and how many grains come free there."""

    lost: int
    tie: Tie
    grains: int


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """A lower bound of what making room somewhere costs."""

    lost: int
    count: int
    ties: tuple[Tie, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes of one model to try, and what it costs there at least."""

    price: Price
    nodes: dict[str, list[str]]

    @property
    def names(self) -> list[str]:
        return next(iter(self.nodes.values()))


def regions(session: Session, pending: Pending, freeable: Mapping[str, Sequence[Freeable]]) -> Iterator[Region]:
    """Narrow levels before broad ones, in a level the cheapest estimates."""
    return islice(_by_level(session, pending, freeable), MOST)


def _by_level(session: Session, pending: Pending, freeable: Mapping[str, Sequence[Freeable]]) -> Iterator[Region]:
    job = pending.job
    first, last = session.topology.first_and_last(job)
    depths = range(first, last - 1, -1) if job.least_pods > 1 else [len(session.topology.names) - 1]
    whole = all(isinstance(s.demand, Whole) for s in job.pod_sets)
    for model, names in session.eligible(pending).items():
        need = session.grains(job, model, job.least_pods)
        for depth in depths:
            rated = []
            for domain in session.topology.split(names, depth).values():
                price = _estimate(session, domain, freeable, need, whole=whole)
                if price is not None:
                    rated.append((price, session.topology.order[domain[0]], domain))
            for price, _, domain in sorted(rated)[:MOST_PER_LEVEL]:
                yield Region(price, {model: domain})


def freed_by(session: Session, place: PodPlace) -> int:
    """Grains an estimate counts for a place that comes free. A part of a card counts as the card: never too little."""
    return max(session.cost([place]), GRAIN) if place.slices or place.shares else session.cost([place])


def _estimate(
    session: Session, names: Sequence[str], freeable: Mapping[str, Sequence[Freeable]], need: int, *, whole: bool
) -> Price | None:
    """The price of making room here; None when nothing can leave, or all that can is not enough."""
    found: dict[Tie, Freeable] = {}
    for item in (item for name in names for item in freeable.get(name, ())):
        before = found.get(item.tie)  # a gang on several of these nodes is lost once
        found[item.tie] = Freeable(item.lost, item.tie, item.grains + before.grains) if before else item
    items = sorted(found.values(), key=lambda i: (i.lost * GRAIN // max(i.grains, 1), i))
    if not items:
        return None
    if not whole:
        cheapest = min(items)
        return Price(cheapest.lost, 1, (cheapest.tie,))
    return _fill_up(items, need - sum([len(session.ledger.books[n].free) for n in names]) * GRAIN)


def _fill_up(items: Sequence[Freeable], missing: int) -> Price | None:
    """Cheapest per GPU until enough is free, the last one counted in part: no real choice of victims costs less."""
    lost, chosen = 0, []
    for item in items:
        if missing <= 0:
            break
        chosen.append(item.tie)
        lost += item.lost * min(missing, item.grains) // max(item.grains, 1)
        missing -= item.grains
    return None if missing > 0 else Price(lost, len(chosen), tuple(chosen))
