"""Where making room is worth a trial: nodes for one pod, domains for a gang; the cheapest by estimate first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Whole
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN

MOST_PER_LEVEL, MOST = 6, 10
"""Regions tried. Chosen by feeling: enough that estimate and truth seldom part, few enough to stay quick."""

Tie = tuple[int, int, float, str]
"""Of equal lost work: what its whole branch of queues borrowed before what is only lent inside one; then lower
priority, later start, name."""


class Freeable(NamedTuple):
    """Something that could leave a node, or move away: what is lost by it, and how many grains come free there."""

    lost: int
    tie: Tie
    grains: int


class Price(NamedTuple):
    """A lower bound of what making room somewhere costs."""

    lost: int
    leavers: int
    ties: tuple[Tie, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes of one model to try, and what it costs there at least."""

    price: Price
    nodes: dict[str, list[str]]

    @property
    def names(self) -> list[str]:
        return next(iter(self.nodes.values()))


@dataclass(frozen=True, slots=True)
class Source:
    """What could come free: by node, and under which name prices of a node may be remembered while it is unchanged."""

    key: object
    freeable: Callable[[str], Sequence[Freeable]]


def regions(session: Session, pending: Pending, source: Source) -> Iterator[Region]:
    """Narrow levels before broad ones, in a level the cheapest estimates."""
    return islice(_by_level(session, pending, source), MOST)


def _by_level(session: Session, pending: Pending, source: Source) -> Iterator[Region]:
    job = pending.job
    first, last = session.topology.first_and_last(job)
    depths = range(first, last - 1, -1) if job.least_pods > 1 else [len(session.topology.names) - 1]
    whole = all(isinstance(s.demand, Whole) for s in job.pod_sets)
    for model, names in session.eligible(pending).items():
        need = session.grains(job, model, job.least_pods) if whole else None
        for depth in depths:
            domains = session.topology.split(names, depth).values()
            for price, _, domain in nsmallest(MOST_PER_LEVEL, _rated(session, domains, source, need)):
                yield Region(price, {model: domain})


def _rated(
    session: Session, domains: Iterable[list[str]], source: Source, need: int | None
) -> Iterator[tuple[Price, int, list[str]]]:
    order = session.topology.order
    for domain in domains:
        price = _price_of_node(session, domain[0], source, need) if len(domain) == 1 else None
        if len(domain) > 1:
            price = _estimate(session, domain, source, need)
        if price is not None:
            yield price, order[domain[0]], domain


def _price_of_node(session: Session, name: str, source: Source, need: int | None) -> Price | None:
    """Remembered until the node changes."""
    memo, key = session.ledger.books[name].memo, (source.key, need)
    if key not in memo:
        memo[key] = _estimate(session, [name], source, need)
    found: Price | None = memo[key]
    return found


def _freeable(session: Session, name: str, source: Source) -> Sequence[Freeable]:
    """What the source could free on the node, remembered until the node changes: every level asks."""
    memo, key = session.ledger.books[name].memo, (source.key, "freeable")
    if key not in memo:
        memo[key] = source.freeable(name)
    found: Sequence[Freeable] = memo[key]
    return found


def freed_by(session: Session, place: PodPlace) -> int:
    """Grains an estimate counts for a place that comes free. A part of a card counts as the card: never too little."""
    return max(session.cost([place]), GRAIN) if place.slices or place.shares else session.cost([place])


def _estimate(session: Session, names: Sequence[str], source: Source, need: int | None) -> Price | None:
    """The price of making room here; None when nothing can leave, or all that can is not enough.

    `need` is in grains of whole GPUs; None for parts of cards, where the cheapest leaver alone is counted.
    """
    books = session.ledger.books
    missing = 0 if need is None else need - sum([len(books[n].free) for n in names]) * GRAIN
    items = [item for name in names for item in _freeable(session, name, source)]
    if not items or sum([i.grains for i in items]) < missing:
        return None
    found: dict[Tie, Freeable] = {}
    for item in items:
        before = found.get(item.tie)  # a gang on several of these nodes is lost once
        found[item.tie] = Freeable(item.lost, item.tie, item.grains + before.grains) if before else item
    if need is None:
        cheapest = min(found.values())
        return Price(cheapest.lost, 1, (cheapest.tie,))
    return _fill_up(sorted(found.values(), key=lambda i: (i.lost * GRAIN // max(i.grains, 1), i)), missing)


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
