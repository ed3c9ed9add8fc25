"""Where making room is worth a trial: nodes for one pod, domains for a gang; a few of each, promising ones first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.model.workload import Whole
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN

MOST = 12
"""Regions tried per level. Chosen by feeling: enough that estimate and truth seldom part, few enough to stay quick."""

Freeable = Mapping[str, Sequence[tuple[Fraction, int]]]
"""By node: (lost work, grains) of what could leave or move."""


def regions(session: Session, pending: Pending, freeable: Freeable) -> Iterator[dict[str, list[str]]]:
    """Nodes by model to try, cheapest estimate first in each level, narrow levels before broad ones."""
    job = pending.job
    first, last = session.topology.first_and_last(job)
    depths = range(first, last - 1, -1) if job.least_pods > 1 else [len(session.topology.names) - 1]
    for model, names in session.eligible(pending).items():
        need = session.grains(job, model, job.least_pods)
        for depth in depths:
            rated = []
            for domain in session.topology.split(names, depth).values():
                price = _estimate(session, domain, freeable, need, whole=_asks_whole(pending))
                if price is not None:
                    rated.append((price, session.topology.order[domain[0]], domain))
            for _, _, domain in sorted(rated)[:MOST]:
                yield {model: domain}


def freed_by(session: Session, place: PodPlace) -> int:
    """Grains an estimate counts for a place that comes free. A part of a card counts as the card: never too little."""
    return max(session.cost([place]), GRAIN) if place.slices or place.shares else session.cost([place])


def _asks_whole(pending: Pending) -> bool:
    return all(isinstance(s.demand, Whole) for s in pending.job.pod_sets)


def _estimate(session: Session, names: Sequence[str], freeable: Freeable, need: int, *, whole: bool) -> Fraction | None:
    """Lost work if the cheapest left until enough is free; None when nothing can leave or all is not enough."""
    items = sorted(item for name in names for item in freeable.get(name, ()))
    if not items:
        return None
    missing = need - sum(len(session.ledger.books[n].free) for n in names) * GRAIN
    if not whole:
        return items[0][0]
    price = Fraction(0)
    for lost, grains in items:
        if missing <= 0:
            break
        price, missing = price + lost, missing - grains
    return price if missing <= 0 else None
