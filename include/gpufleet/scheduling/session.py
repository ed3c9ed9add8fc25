"""The working state of one pass: ledger, usage and decisions so far, all of it taken back together by one rollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from gpufleet.model.plan import Eviction, Move, Placement
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.workload import Job
from gpufleet.placement import Gang, Ledger, Topology, holds, place_gang
from gpufleet.placement.mix import expecting, mix_of
from gpufleet.placement.potential import potential_of
from gpufleet.quota import Tree, cost, fair_shares
from gpufleet.quota.report import used
from gpufleet.quota.rules import Rights
from gpufleet.scheduling.notes import Notes
from gpufleet.scheduling.requests import Requests
from gpufleet.scheduling.reservation import Reservation
from gpufleet.scheduling.roster import Roster, Sort

Nodes = Mapping[str, Sequence[str]]
"""Node names by GPU model."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to go back to."""

    ledger: int
    usage: int
    standing: int
    steps: int


class Session(Requests):
    """What one pass knows and has decided."""

    def __init__(self, snapshot: Snapshot, policy: SchedulingPolicy, now: datetime) -> None:
        super().__init__(snapshot)
        self.policy, self.now = policy, now
        asked = mix_of(s for job in _jobs(snapshot) for s in job.pod_sets)
        self.potential = potential_of(expecting(asked, snapshot.nodes))
        running = sorted(snapshot.running, key=lambda r: r.job.id)
        self.ledger = Ledger(self.nodes.values(), running, potential=self.potential)
        self.topology = Topology(snapshot.levels, self.nodes.values())
        self.tree = Tree(snapshot.queues)
        self.usage = used(snapshot, self.tree)
        self.standing = self.usage.copy()
        """Use of what ran before this pass and still does: whose work may be taken back is judged by this alone."""
        self.held: dict[str, tuple[PodPlace, ...]] = {name: r.places for name, r in self.running.items()}
        """Where running jobs are by now: without what was taken from them, with what they got instead."""
        leaving = [r for r in snapshot.running if r.leaving]
        self.departing: list[tuple[str, PodPlace]] = [(r.job.id, place) for r in leaving for place in r.places]
        self.placements: dict[str, Placement] = {}
        self.evictions: list[Eviction] = []
        self.moves: list[Move] = []
        self._moved: tuple[int, set[str], int] = (0, set(), 0)
        self._lenders: tuple[int, list[tuple[Sort, Running]]] = (-1, [])
        self.reservations: dict[str, Reservation] = {}
        """By GPU model: only the first aged head of a type holds one."""
        self.freed = 0
        """Counts what gave places back: what failed before may fit now."""
        self._steps: list[tuple[str, tuple[PodPlace, ...], int]] = []
        self.notes = Notes()

    @cached_property
    def roster(self) -> Roster:
        """Running jobs by what the rules look at."""
        models = {name: self.model_of(name) for name in self.running}
        return Roster(self.running, self.tree.queues, models, self.now, self.policy)

    @property
    def moved(self) -> set[str]:
        """Jobs that this pass moves."""
        if self._moved[0] != len(self.moves):
            self._moved = len(self.moves), {m.job for m in self.moves}, sum(len(m.places) for m in self.moves)
        return self._moved[1]

    @property
    def moved_pods(self) -> int:
        """Pods that this pass moves."""
        return self._moved[2] if self.moved else 0

    def lenders(self) -> list[tuple[Sort, Running]]:
        """Sorts of jobs that may be stopped, of queues that hold more than they deserve; each with one job of it."""
        changes = self.standing.changes
        if self._lenders[0] != changes:
            within, first = self.rights.is_within_any, self.roster.first.items()
            self._lenders = changes, [(s, run) for s, run in first if not within((s.queue,), s.model)]
        return self._lenders[1]

    # ------------------------------------------------------------ undo

    def mark(self) -> Mark:
        return Mark(self.ledger.mark(), self.usage.mark(), self.standing.mark(), len(self._steps))

    def rollback(self, mark: Mark) -> None:
        self.ledger.rollback(mark.ledger)
        self.usage.rollback(mark.usage)
        self.standing.rollback(mark.standing)
        while len(self._steps) > mark.steps:
            job, places, departed = self._steps.pop()
            self.held[job] = places
            del self.departing[departed:]

    # ------------------------------------------------------------ rules

    @cached_property
    def rights(self) -> Rights:
        """The rules of reclaim, with fair shares as of the start of the pass."""
        shares = fair_shares(self.tree, self._wanted(), self.capacity, self.policy.usage_weight)
        return Rights(self.tree, self.usage, self.standing, shares)

    def _wanted(self) -> dict[str, dict[str, int]]:
        """What every leaf uses and waits for. A request larger than all there is hides nobody else's."""
        found = {name: dict(self.usage.of(name)) for name in self.tree.queues if not self.tree.children[name]}
        for pending in self.snapshot.pending:
            row = found.setdefault(pending.job.queue, {})
            for model in self.eligible(pending):
                grains = self.grains(pending.job, model, pending.job.pods)
                if grains <= self.capacity[model]:
                    row[model] = row.get(model, 0) + grains
        return found

    # ------------------------------------------------------------ steps

    def start(self, pending: Pending, nodes: Nodes | None = None) -> tuple[PodPlace, ...] | None:
        """Places for the job within its quota, as many pods as fit from its minimum up; or None, nothing changed."""
        job = pending.job
        nodes = self.eligible(pending) if nodes is None else nodes
        if found := self._start_exactly(pending, job.pods, nodes):
            return found
        if job.least_pods == job.pods or not self._fits(pending, job.least_pods, nodes):
            return None
        low, high = job.least_pods, job.pods - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(pending, middle, nodes) else (low, middle - 1)
        return self._start_exactly(pending, low, nodes)

    def can_start(self, pending: Pending) -> bool:
        """Whether it would start now on what is free."""
        key = self.request("allocate", pending)
        if key in self.notes.hopeless:
            return False
        if not self._fits(pending, pending.job.least_pods, self.eligible(pending)):
            self.notes.hopeless.add(key)
            return False
        return True

    def request(self, action: str, pending: Pending, *more: object) -> tuple[object, ...]:
        """Under what a failure is remembered: while nothing is given back, equal requests of a queue fail alike."""
        return action, self.freed, self.shape(pending), pending.job.queue, pending.job.preemptible, *more

    def fits(self, pending: Pending, nodes: Nodes) -> bool:
        """Whether the job's smallest form would start there as things stand."""
        return self._fits(pending, pending.job.least_pods, nodes)

    def _fits(self, pending: Pending, pods: int, nodes: Nodes) -> bool:
        job = pending.job
        allowed = {m: n for m, n in nodes.items() if self.quota_allows(job, m, self.grains(job, m, pods))}
        counted = holds(self.ledger, self.topology, Gang(job, pods, allowed)) if not job.mix_models else None
        if counted is not None:
            return counted
        mark = self.mark()
        found = self._start_exactly(pending, pods, nodes)
        self.rollback(mark)
        return found is not None

    def _start_exactly(self, pending: Pending, pods: int, nodes: Nodes) -> tuple[PodPlace, ...] | None:
        """So many pods, on the first model that has room and for which the quota allows what they really cost there."""
        job = pending.job
        allowed = {m: n for m, n in nodes.items() if self.quota_allows(job, m, self.grains(job, m, pods))}
        mark = self.mark()
        while allowed and (places := place_gang(self.ledger, self.topology, Gang(job, pods, allowed))):
            if self._charge(job, places):
                return places
            self.rollback(mark)  # a larger slice than the smallest that would do
            del allowed[self.nodes[places[0].node].model.name]
        return self._start_mixed(pending, pods, nodes) if job.mix_models and len(nodes) > 1 else None

    def _start_mixed(self, pending: Pending, pods: int, nodes: Nodes) -> tuple[PodPlace, ...] | None:
        """So many pods on several models together, for a job that asked for it and found no single one."""
        shape, job, mark = self.shape(pending), pending.job, self.mark()
        if shape.mixed is None:
            shape.mixed = [name for names in nodes.values() for name in names]
        places = place_gang(self.ledger, self.topology, Gang(job, pods, {"": shape.mixed}))
        if places and self._charge(job, places):
            return places
        self.rollback(mark)
        return None

    def _charge(self, job: Job, places: Sequence[PodPlace]) -> bool:
        """Count what the places cost, model by model; False, and nothing counted, where a quota forbids it."""
        amounts: dict[str, int] = {}
        for place in places:
            model = self.nodes[place.node].model.name
            amounts[model] = amounts.get(model, 0) + self.cost([place])
        mark = self.usage.mark()
        for model, grains in amounts.items():
            if not self.quota_allows(job, model, grains):
                self.usage.rollback(mark)
                return False
            self.usage.add(job.queue, model, grains, preemptible=job.preemptible)
        return True

    def quota_allows(self, job: Job, model: str, grains: int) -> bool:
        if self.usage.over_limit(job.queue, model, grains):
            return False
        return job.preemptible or self.usage.fits_guarantee(job.queue, model, grains)

    def cost(self, places: Sequence[PodPlace]) -> int:
        return sum(cost(p, self.nodes[p.node].model).grains for p in places if p.node in self.nodes)

    def take_away(self, job: str, ranks: Sequence[int]) -> None:
        """These pods of a running job give up their places."""
        self._change(job, tuple(p for p in self.held[job] if p.rank not in ranks))

    def give_back(self, job: str, places: Sequence[PodPlace]) -> None:
        """Pods taken away get the same places again."""
        self._change(job, tuple(sorted([*self.held[job], *places], key=lambda p: p.rank)))

    def _change(self, name: str, after: tuple[PodPlace, ...]) -> None:
        before = self.held[name]
        job = self.running[name].job
        gone = [p for p in before if p not in after]
        come = [p for p in after if p not in before]
        self._steps.append((name, before, len(self.departing)))
        for place in gone:
            self.ledger.drop(place, name)
            self.departing.append((name, place))
        for place in come:
            self.ledger.add(place, name)
        for places, sign in ((gone, -1), (come, +1)):
            for place in places:
                self._count(job, place, sign)
        self.held[name] = after

    def _count(self, job: Job, place: PodPlace, sign: int) -> None:
        if place.node in self.nodes:
            model, grains = self.nodes[place.node].model.name, sign * self.cost([place])
            for table in (self.usage, self.standing):
                table.add(job.queue, model, grains, preemptible=job.preemptible)

    def note_moved(self, name: str, places: Sequence[PodPlace]) -> None:
        """Pods taken away stand elsewhere now; the ledger knows already."""
        job = self.running[name].job
        for place in places:
            self._count(job, place, +1)
        self._steps.append((name, self.held[name], len(self.departing)))
        self.held[name] = tuple(sorted([*self.held[name], *places], key=lambda p: p.rank))

    def commit(self, pending: Pending, places: tuple[PodPlace, ...], victims: Sequence[str] = ()) -> None:
        """Write down that the job starts here, in the place of its victims."""
        self.placements[pending.job.id] = Placement(pending.job.id, places, tuple(victims))

    def placed(self) -> tuple[Placement, ...]:
        """All placements, sorted; each waits for its victims and for whoever else is leaving its devices."""
        gone: dict[str, list[tuple[str, PodPlace]]] = {}
        for name, place in self.departing:
            gone.setdefault(place.node, []).append((name, place))
        return tuple(self._after(self.placements[job], gone) for job in sorted(self.placements))

    def _after(self, found: Placement, gone: Mapping[str, Sequence[tuple[str, PodPlace]]]) -> Placement:
        waits = {name for new in found.pods for name, old in gone.get(new.node, ()) if overlap(self.ledger, old, new)}
        return Placement(found.job, found.pods, tuple(sorted({*found.after, *waits})))

    def since_save(self, run: Running) -> timedelta:
        """The work of how long would be lost now."""
        return max(timedelta(0), self.now - (run.last_checkpoint_at or run.started_at))


def _jobs(snapshot: Snapshot) -> Iterator[Job]:
    """The recent demand: what runs and what waits."""
    yield from (run.job for run in snapshot.running)
    yield from (waiting.job for waiting in snapshot.pending)


def overlap(ledger: Ledger, old: PodPlace, new: PodPlace) -> bool:
    """Whether a new place stands where an old one does: the same card, the same cells of it, or too much of it."""
    if old.node != new.node:
        return False
    book = ledger.books[new.node]
    for gpu in {*old.devices} & {*new.devices}:
        if old.slices and new.slices:
            before = book.table.masks(s.instance for s in old.slices if s.gpu == gpu)
            meets = bool(before & book.table.masks(s.instance for s in new.slices if s.gpu == gpu))
        elif old.shares and new.shares:
            milli = book.cards[gpu].milli + sum(s.milli for s in old.shares if s.gpu == gpu)
            memory = book.cards[gpu].memory_mib + sum(s.memory_mib for s in old.shares if s.gpu == gpu)
            meets = milli > 1000 or memory > book.node.model.memory_mib
        else:
            meets = True
        if meets:
            return True
    return False
