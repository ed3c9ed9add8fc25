"""Running jobs that would leave: by their declared end, by a move, or because somebody stops them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from gpufleet.model.snapshot import Pending, PodPlace, Running
from gpufleet.model.workload import Kind, PodSet
from gpufleet.placement.demand import capacity
from gpufleet.scheduling.lost import lost_work
from gpufleet.scheduling.replay import asks_again
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.trial import Option, Proof, Trial
from gpufleet.scheduling.what_if import Change
from gpufleet.units import GpuAmount

MOST_STARTS: Final = 100
"""Running jobs whose leaving is tried out, the least unsaved work first."""
MOST_STOPS: Final = 3
"""Stops that are told; the first is the cheapest."""


# ---------------------------------------------------------------- a wait


def waits(trial: Trial) -> Iterator[Option]:
    """The first moment at which declared ends let the job start, then later ones; none if no declaration reaches so far.

    Jobs without a declared runtime, or past it, count as if they never ended, and so do services.
    """
    ends = _ends(trial)
    count = _fewest(trial, ends)
    while count is not None:
        yield _wait(trial, ends, count)
        count = min(2 * count, len(ends)) if count < len(ends) else None


def _wait(trial: Trial, ends: Sequence[tuple[datetime, str]], count: int) -> Option:
    at, last = ends[count - 1]
    told = f"when {last} ends by its declared runtime"
    if count > 1:
        told = f"when {last} ends, the last of {count} jobs by their declared runtimes"
    delay = _span(at - trial.session.now)
    return Option(
        "wait",
        f"it is expected to start at {at:%Y-%m-%dT%H:%M:%SZ}, in {delay}, {told}",
        at,
        Change(cancel=tuple(name for _, name in ends[:count])),
    )


def _ends(trial: Trial) -> list[tuple[datetime, str]]:
    found = []
    for name, run in trial.session.running.items():
        if run.job.runtime is not None and run.job.kind is not Kind.INFERENCE:
            end = run.started_at + run.job.runtime
            if end > trial.session.now:
                found.append((end, name))
    return sorted(found)


def _fewest(trial: Trial, ends: Sequence[tuple[datetime, str]]) -> int | None:
    """How many ends it takes: by doubling, then by halving; each end is applied a few times at most."""
    session = trial.session
    base = session.mark()
    low, high = 0, min(1, len(ends))
    while high > low:
        _end(session, ends[low:high])
        if trial.starts() is not None:
            break
        low, high = high, min(2 * high, len(ends))
    session.rollback(base)
    if high == low:
        return None
    _end(session, ends[:low])
    while high - low > 1:
        middle, mark = (low + high) // 2, session.mark()
        _end(session, ends[low:middle])
        if trial.starts() is not None:
            session.rollback(mark)
            high = middle
        else:
            low = middle
    session.rollback(base)
    return high


def _end(session: Session, ends: Sequence[tuple[datetime, str]]) -> None:
    for _, name in ends:
        session.take_away(name, [p.rank for p in session.held[name]])


def _span(time: timedelta) -> str:
    """`2h05m`, `12m`; seconds only below a minute."""
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m" if minutes else f"{seconds}s"


# ---------------------------------------------------------------- a move, a stop


class Departures:
    """Running jobs one by one. `tried` of `helpful` ones were tried out: what is cut is told."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.session = trial, trial.session
        self.tried = 0
        self._models = {n.name: n.model.name for n in self.session.nodes.values()}
        self._rooms = _Rooms(trial)
        self.helpful = sorted(
            (run for run in self.session.running.values() if self._may_help(run)),
            key=lambda r: (self._lost(r), r.job.id),
        )

    def _lost(self, run: Running) -> int:
        return lost_work(self.session, run, self.session.held[run.job.id])

    def _may_help(self, run: Running) -> bool:
        """Neither a service nor just started, and its places are enough by count."""
        old = self.trial.before.running
        return run.job.kind is not Kind.INFERENCE and run.job.id in old and self._rooms.is_enough(run)

    def options(self, proof: Proof) -> Iterator[Option]:
        """The cheapest move and the cheapest stops that work."""
        moves = stops = 0
        for run in self.helpful[:MOST_STARTS]:
            self.tried += 1
            mark = self.session.mark()
            self.session.take_away(run.job.id, [p.rank for p in self.session.held[run.job.id]])
            works = self.trial.starts() is not None
            self.session.rollback(mark)
            stop = Option(
                "stop",
                f"the end of {run.job.id} ({self._what(run)}) would place it",
                change=Change(cancel=(run.job.id,)),
            )
            if works and stops < MOST_STOPS and proof.holds(stop):
                stops += 1
                yield stop
            if works and not moves and (nodes := self._moves_to(run)):
                moves += 1
                yield Option("move", f"moving {run.job.id} ({self._what(run)}) to {', '.join(nodes)} would place it")
            if moves and stops == MOST_STOPS:
                return

    def _what(self, run: Running) -> str:
        minutes = self.session.since_save(run) // timedelta(minutes=1)
        gpus = GpuAmount(self.session.cost(self.session.held[run.job.id]))
        since = "its checkpoint" if run.last_checkpoint_at else "its start"
        return f"{gpus} GPU{'' if str(gpus) == '1' else 's'}, {minutes} min since {since}"

    def _moves_to(self, run: Running) -> list[str]:
        """Nodes on which all its pods find a place with the waiting job in theirs; none where that fails."""
        if not run.job.preemptible:
            return []
        session, mark = self.session, self.session.mark()
        here = session.held[run.job.id]
        session.take_away(run.job.id, [p.rank for p in here])
        self.trial.turn(session, self.trial.least)
        found = session.start(Pending(asks_again(replace(run, places=here), self._models)))
        session.rollback(mark)
        if found is None or len(found) != len(here) or not self._holds(run, found):
            return []
        return sorted({p.node for p in found})

    def _holds(self, run: Running, places: Sequence[PodPlace]) -> bool:
        """Moved there, does the job start after its elders' turn?"""
        session, mark = self.session, self.session.mark()
        session.take_away(run.job.id, [p.rank for p in session.held[run.job.id]])
        session.give_back(run.job.id, places)
        works = self.trial.starts() is not None
        session.rollback(mark)
        return works


class _Rooms:
    """Pods that fit by count in every domain of the required level; a departure is judged by its own nodes alone."""

    def __init__(self, trial: Trial) -> None:
        self.session, self.job = trial.session, trial.pending.job
        self._depth = self.session.topology.depth[self.job.topology.required or "cluster"]
        self._needs = self._wanted()
        self._room: dict[tuple[object, ...], list[int]] = {}
        self._on: dict[str, list[int]] = {}
        self._model: dict[str, str] = {}
        for model, names in self.session.eligible(trial.pending).items():
            for name in names:
                self._model[name] = model
                self._on[name] = self._fit(name)
                total = self._room.setdefault(self._domain(name), [0] * len(self._needs))
                self._room[self._domain(name)] = [a + b for a, b in zip(total, self._on[name], strict=True)]

    def _wanted(self) -> list[tuple[PodSet, int]]:
        found, left = [], self.job.least_pods
        for pod_set in self.job.pod_sets:
            found.append((pod_set, min(left, pod_set.count)))
            left -= found[-1][1]
        return found

    def _domain(self, node: str) -> tuple[object, ...]:
        return self._model[node], self.session.topology.domain(node, self._depth)

    def _fit(self, node: str) -> list[int]:
        return [capacity(self.session.ledger, self.session.ledger.books[node], s) for s, _ in self._needs]

    def is_enough(self, run: Running) -> bool:
        """Necessary for the job to start when this one leaves: each pod set alone has room in a domain it stands in."""
        session = self.session
        places = session.held[run.job.id]
        mine = {p.node for p in places} & self._on.keys()
        if not mine:
            return False
        mark = session.mark()
        session.take_away(run.job.id, [p.rank for p in places])
        room = {self._domain(n): list(self._room[self._domain(n)]) for n in mine}
        for node in mine:
            gain = [after - before for after, before in zip(self._fit(node), self._on[node], strict=True)]
            domain = self._domain(node)
            room[domain] = [a + b for a, b in zip(room[domain], gain, strict=True)]
        session.rollback(mark)
        return any(all(have >= need for have, (_, need) in zip(r, self._needs, strict=True)) for r in room.values())
