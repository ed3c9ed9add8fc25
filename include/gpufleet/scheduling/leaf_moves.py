"""Leaf moves: a running gang that crosses more leaves than it needs goes together, where the time it saves pays.

Off unless the policy says how much slower crossing makes (docs/decisions/0005), and never without a declared runtime.
Everybody who moves saves first, so a move costs its restart; smaller jobs in the way may change places with the gang.
It settles: a gang only ever disturbs smaller jobs, and never ends on as many leaves as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import combinations
from typing import Final

from gpufleet.model.snapshot import PodPlace, Running
from gpufleet.scheduling.lost import MICROSECOND, lost_work
from gpufleet.scheduling.moving import is_movable, new_places, note_move, pods_left_to_move
from gpufleet.scheduling.session import Session, overlap

SETTLED: Final = timedelta(minutes=30)
"""A gang has run at least so long before it is moved."""
PLANNED_MOVE: Final = timedelta(minutes=6)
"""What every moved job pays: saving and starting again."""
PAYS: Final = Fraction(1, 2)
"""A move may cost this part of what it is expected to save, for declared runtimes are upper bounds."""
LEAVES: Final = 6
"""Leaves looked at for one gang, the roomiest first."""


@dataclass(frozen=True, slots=True)
class Step:
    """One job's part in a leaf move: pods that leave their places, and what the job pays for it."""

    job: str
    places: tuple[PodPlace, ...]
    cost: int


Found = list[tuple[Step, tuple[PodPlace, ...]]]
"""Steps with the places they lead to."""


def move_to_fewer_leaves(session: Session) -> None:
    """Move gangs together, the largest first. A pass that stops or moves anyone for waiting work leaves this be."""
    if session.policy.leaf_slowdown <= 1 or session.evictions or session.moves:
        return
    gangs = [run for run in session.running.values() if _may_gain(session, run)]
    for run in sorted(gangs, key=lambda r: (-session.cost(r.places), r.job.id)):
        if is_movable(session, run) and pods_left_to_move(session) > 0:
            _move_together(session, run)


def _may_gain(session: Session, run: Running) -> bool:
    """It crosses leaves, has run a while, has saved, and said when it ends."""
    places = session.held[run.job.id]
    if run.job.runtime is None or run.last_checkpoint_at is None or session.now - run.started_at < SETTLED:
        return False
    gang = run.job.least_pods == run.job.pods and all(p.gpus and p.node in session.nodes for p in places)
    return gang and len(_leaves(session, places)) > 1 and is_movable(session, run)


def _leaves(session: Session, places: Sequence[PodPlace]) -> dict[object, list[PodPlace]]:
    found: dict[object, list[PodPlace]] = {}
    for place in places:
        found.setdefault(session.topology.domain(place.node, session.topology.leaf), []).append(place)
    return found


def _saved(session: Session, run: Running) -> Fraction:
    """Grain-microseconds that the slowdown would still cost the gang where it is."""
    assert run.job.runtime is not None, "only gangs with a declared runtime are looked at"
    remaining = max(timedelta(0), run.started_at + run.job.runtime - session.now)
    return (Fraction(str(session.policy.leaf_slowdown)) - 1) * (remaining // MICROSECOND) * session.cost(run.places)


def _move_together(session: Session, run: Running) -> None:
    """The first move that pays, onto the fewest leaves; without disturbing others where that is possible."""
    most = PAYS * _saved(session, run)
    if _step(session, run, run.places).cost > most:
        return
    for names in _targets(session, run):
        for movers in ([], _small_ones(session, run, names)):
            if not _has_room(session, run, names, movers):
                continue
            found = _without_needless(session, run, names, _tried(session, run, names, movers))
            pods = sum(len(step.places) for step, _ in found)
            if found and sum(s.cost for s, _ in found) <= most and pods <= pods_left_to_move(session):
                _carry_out(session, run, names, [step for step, _ in found[1:]])
                return


def _tried(session: Session, run: Running, names: Sequence[str], movers: Sequence[Step]) -> Found:
    mark = session.mark()
    found = _attempt(session, run, names, movers)
    session.rollback(mark)
    return found


def _without_needless(session: Session, run: Running, names: Sequence[str], found: Found) -> Found:
    """Leave where they are those without whose move it works too, dearest first."""
    for step in sorted((step for step, _ in found[1:]), key=lambda s: (-s.cost, s.job)):
        rest = [other for other, _ in found[1:] if other.job != step.job]
        found = _tried(session, run, names, rest) or found
    return found


def _targets(session: Session, run: Running) -> Iterator[list[str]]:
    """Sets of leaves, fewer than the gang is on now, that might hold it: those first which hold most of it already."""
    model = session.nodes[run.places[0].node].model
    on, room = _leaves(session, run.places), dict[object, int]()
    nodes: dict[object, list[str]] = {}
    for name, node in session.nodes.items():
        if node.model == model:
            leaf = session.topology.domain(name, session.topology.leaf)
            nodes.setdefault(leaf, []).append(name)
            room[leaf] = room.get(leaf, 0) + sum(session.ledger.books[name].usable)
    need = sum(len(p.gpus) for p in run.places)
    order = {leaf: min(session.topology.order[n] for n in names) for leaf, names in nodes.items()}
    ranked = sorted(nodes, key=lambda leaf: (-len(on.get(leaf, ())), -room[leaf], order[leaf]))[:LEAVES]
    for number in range(1, len(on)):
        for leaves in combinations(ranked, number):
            if sum(room[leaf] for leaf in leaves) >= need:
                yield [name for leaf in leaves for name in nodes[leaf]]


def _small_ones(session: Session, run: Running, names: Sequence[str]) -> list[Step]:
    """Smaller jobs on these nodes that may be moved: node by node, those first from which least has to go.

    A node on which anybody stays is of no use to pods that need most of it, so it comes last.
    """
    size, found = session.cost(run.places), dict[str, Step]()
    for name in sorted(names, key=lambda n: _clearing_cost(session, run, n)):
        for job in session.roster.on.get(name, ()):
            other = session.running[job]
            if (
                job not in found
                and job != run.job.id
                and session.cost(other.places) < size
                and is_movable(session, other)
            ):
                found[job] = _step(session, other, tuple(p for p in session.held[job] if p.node in names))
    return list(found.values())


def _clearing_cost(session: Session, run: Running, name: str) -> tuple[bool, int, int]:
    """(somebody stays, what moving the others costs, the order of the topology)"""
    others = [session.running[job] for job in session.roster.on.get(name, ()) if job != run.job.id]
    size = session.cost(run.places)
    stays = any(session.cost(o.places) >= size or not is_movable(session, o) for o in others)
    return stays, sum(session.cost(o.places) for o in others), session.topology.order[name]


def _has_room(session: Session, run: Running, names: Sequence[str], movers: Sequence[Step]) -> bool:
    """Cheap and necessary: what is free on these nodes, what the movers give back there and what the gang has there."""
    books, wanted = session.ledger.books, set(names)
    free = sum(len(books[n].free) for n in names)
    free += sum(len(p.devices) for step in movers for p in step.places)
    return free >= sum(len(p.gpus) for p in run.places if p.node not in wanted)


def _step(session: Session, run: Running, places: tuple[PodPlace, ...]) -> Step:
    """A job of which one pod moves starts again as a whole."""
    return Step(run.job.id, places, PLANNED_MOVE // MICROSECOND * session.cost(run.places))


def _attempt(session: Session, run: Running, names: Sequence[str], movers: Sequence[Step]) -> Found:
    """The gang on these nodes, and whoever had to leave them where room is free or the gang was; [] if that fails."""
    wanted = set(names)
    outside = tuple(p for p in run.places if p.node not in wanted)
    gone: list[Step] = []
    session.take_away(run.job.id, [p.rank for p in outside])
    waiting = iter(movers)
    while not (places := new_places(session, run.job.id, outside, names)):
        mover = next(waiting, None)
        if mover is None:
            return []
        session.take_away(mover.job, [p.rank for p in mover.places])
        gone.append(mover)
    found = [(_step(session, run, outside), places)]
    for mover in gone:
        _hold(session, mover.job, mover.places)
    for mover in sorted(gone, key=lambda s: (-session.cost(s.places), s.job)):
        others = new_places(session, mover.job, mover.places)
        if not others:
            return []
        found.append((mover, others))
    return found if _is_lawful(session, run, found) else []


def _hold(session: Session, job: str, places: Sequence[PodPlace]) -> None:
    """Nobody moves to where another mover still is."""
    for place in places:
        session.ledger.hold(place, f"~{job}")


def _is_lawful(session: Session, run: Running, found: Found) -> bool:
    """What each job requires of the topology stays kept, and nobody waits for one who is leaving anyway."""
    for step, places in found:
        job = session.running[step.job].job
        level = session.topology.depth.get(job.topology.required or "", 0)
        moved = {p.rank for p in places}
        nodes = [p.node for p in (*places, *(p for p in session.running[step.job].places if p.rank not in moved))]
        if len({session.topology.domain(n, level) for n in nodes}) > 1:
            return False
        if any(overlap(session.ledger, old, new) for _, old in _leaving(session) for new in places):
            return False
    return len(_leaves(session, found[0][1])) < len(_leaves(session, run.places))


def _leaving(session: Session) -> list[tuple[str, PodPlace]]:
    """Places of jobs that were leaving before this pass."""
    return [(r.job.id, place) for r in session.snapshot.running if r.leaving for place in r.places]


def _carry_out(session: Session, run: Running, names: Sequence[str], movers: Sequence[Step]) -> None:
    for step, places in _attempt(session, run, names, movers):
        mover = session.running[step.job]
        session.ledger.lift(f"~{step.job}", sorted({p.node for p in step.places}))
        lost = lost_work(session, mover, mover.places)
        note_move(session, step.job, run.job.id, step.places, places, lost)
