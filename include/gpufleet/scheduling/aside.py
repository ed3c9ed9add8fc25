"""Pods step aside: a job starts in their place, and they get places that are free now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpufleet.model.hardware import MigRemake
from gpufleet.model.snapshot import Pending, PodPlace
from gpufleet.placement.ledger import NodeBook
from gpufleet.scheduling.moving import new_places
from gpufleet.scheduling.session import Session, overlap


@dataclass(frozen=True, slots=True)
class Mover:
    """Pods of one job that would leave a region."""

    job: str
    places: tuple[PodPlace, ...]
    lost: int

    @property
    def order(self) -> tuple[object, ...]:
        return self.lost, len(self.places), self.job


def lift(session: Session, movers: Sequence[Mover]) -> None:
    for mover in movers:
        session.take_away(mover.job, [p.rank for p in mover.places])


Moved = dict[str, tuple[tuple[PodPlace, ...], tuple[PodPlace, ...]]]
"""By job, the pods that move: where they stood, and where they go."""


def step_aside(
    session: Session, pending: Pending, movers: Sequence[Mover], nodes: dict[str, list[str]]
) -> tuple[tuple[PodPlace, ...], Moved] | None:
    """Start the job with the movers gone, then find them places that are free now: nobody waits for another mover.

    Pods that are not in the way stay where they are.
    """
    lift(session, movers)
    places = session.start(pending, nodes)
    if places is None:
        return None
    leavers = {mover.job: _in_the_way(session, mover, places) for mover in movers}
    for job, leaving in leavers.items():
        for place in leaving:
            session.ledger.hold(place, f"~{job}")
    moved: Moved = {}
    for job, leaving in sorted(leavers.items(), key=lambda item: (-session.cost(item[1]), item[0])):
        found = new_places(session, job, leaving)
        if leaving and not found:
            return None
        moved[job] = leaving, found
    for job, leaving in leavers.items():
        session.ledger.lift(f"~{job}", sorted({p.node for p in leaving}))
    return places, moved


def _in_the_way(session: Session, mover: Mover, taken: Sequence[PodPlace]) -> tuple[PodPlace, ...]:
    """Those of its pods that the new job's places (or their remake) do not leave alone; the others get theirs back."""
    leaving = []
    for place in mover.places:
        if any(_clash(session, place, new) for new in taken):
            leaving.append(place)
        else:
            session.give_back(mover.job, [place])
    return tuple(leaving)


def _clash(session: Session, old: PodPlace, new: PodPlace) -> bool:
    if old.node != new.node:
        return False
    book = session.ledger.books[old.node]
    short = (book.cpu is not None and book.cpu < (old.cpu or 0)) or (
        book.memory_mib is not None and book.memory_mib < (old.memory_mib or 0)
    )
    same_card = bool({*old.devices} & {*new.devices})
    remade = bool(new.slices) and (same_card or book.node.mig is MigRemake.EMPTY_NODE)
    if short or (remade and book.node.mig is not MigRemake.SLICE):
        return True
    return overlap(session.ledger, old, new) or (same_card and _is_counted(book, old, new))


def _is_counted(book: NodeBook, old: PodPlace, new: PodPlace) -> bool:
    """Both hold the same profile, of which a card takes fewer than would fit (media engines)."""
    names = {s.instance.profile for s in old.slices} & {s.instance.profile for s in new.slices}
    profiles = [p for name in names if (p := book.node.model.profile(name))]
    return any(p.max_instances < len(p.starts) for p in profiles)
