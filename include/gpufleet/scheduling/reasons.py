"""Why a job still waits at the end of a pass: one reason, a sentence a team can read, and what would unblock it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.model.hardware import NodeState
from gpufleet.model.plan import Reason, Unfit, Verdict
from gpufleet.model.snapshot import Pending
from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.model.workload import Demand, Job, Share, Slice, Whole
from gpufleet.placement import Gang, Ledger, place_gang
from gpufleet.placement.column import one_by_one
from gpufleet.placement.ledger import NodeBook
from gpufleet.placement.pool import pool_of
from gpufleet.placement.worth import rooms
from gpufleet.quota.tree import Bound
from gpufleet.scheduling.ever import EmptyFleet, whole_gpus
from gpufleet.scheduling.requests import Shape, relaxed
from gpufleet.scheduling.reservation import Reservation
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.words import BLAME, DEARER, EVERYTHING, REPAIRED, WORDS, Why
from gpufleet.units import GRAIN, GpuAmount


class Doctor:
    """Diagnoses against the ledger as it stands when the pass is over; equal requests share an answer."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[Shape, Why] = {}
        self._bounds: dict[tuple[Shape, str, bool], Why | None] = {}
        self._never: dict[Shape, Verdict] = {}

    @cached_property
    def empty(self) -> EmptyFleet:
        return EmptyFleet(self.session.snapshot)

    @cached_property
    def is_broken(self) -> bool:
        """Whether any device or node is out of service."""
        return any(
            n.state is not NodeState.READY or not all(d.healthy for d in n.devices) for n in self.session.nodes.values()
        )

    @cached_property
    def as_it_is(self) -> EmptyFleet:
        return EmptyFleet(self.session.snapshot, repaired=False)

    @cached_property
    def healthy(self) -> Ledger:
        """The fleet as it stands, as if every device were healthy."""
        session = self.session
        ledger = Ledger(session.nodes.values(), every_device=True)
        for job, places in session.held.items():
            for place in places:
                if place.node in ledger.books:
                    ledger.add(place, job)
        for placement in session.placements.values():
            for place in placement.pods:
                ledger.add(place, placement.job)
        return ledger

    def why(self, pending: Pending) -> Why:
        """The reason this job waits."""
        shape = self.session.shape(pending)
        if shape not in self._never:
            self._never[shape] = self.empty.check(pending)
        if isinstance(never := self._never[shape], Unfit):
            return Why(never.reason, never.detail, "it can never run here as it is asked for")
        if found := self._bound(pending):
            return found
        if found := self._broken(pending):
            return found
        if own := self._own_reservation(pending):
            return self._without_hold(pending, own)
        if shape not in self._known:
            self._known[shape] = self._place(pending)
        return self._known[shape]

    def _own_reservation(self, pending: Pending) -> Reservation | None:
        return next((r for r in self.session.reservations.values() if r.job == pending.job.id), None)

    def _without_hold(self, pending: Pending, own: Reservation) -> Why:
        """What is kept for the job itself is free to it."""
        mark = self.session.mark()
        self.session.ledger.lift(own.holder, own.nodes)
        found = self._place(pending)
        self.session.rollback(mark)
        return found

    def _bound(self, pending: Pending) -> Why | None:
        """What the quota says; equal requests of one queue share the answer."""
        key = self.session.shape(pending), pending.job.queue, pending.job.preemptible
        if key not in self._bounds:
            self._bounds[key] = self._quota(pending.job, self.session.eligible(pending))
        return self._bounds[key]

    def _broken(self, pending: Pending) -> Why | None:
        """What is broken now is alone enough to keep the job out, however empty the rest becomes."""
        if not self.is_broken:
            return None
        found = self.as_it_is.check(pending)
        if not isinstance(found, Unfit) or found.reason is Reason.TOPOLOGY:
            return None
        return Why(Reason.UNHEALTHY, f"of what is healthy and ready: {found.detail}", REPAIRED)

    def may_buy(self, pending: Pending) -> bool:
        """Whether more hardware could help at all: what its queue's limit forbids is never bought for."""
        session, job = self.session, pending.job
        if session.eligible(pending):
            return self._bound(pending) is None
        grains = whole_gpus(job) * GRAIN
        return any(session.usage.over_limit(job.queue, model, grains) is None for model in job.models or (ANY_MODEL,))

    # ------------------------------------------------------------ quota

    def _quota(self, job: Job, nodes: dict[str, list[str]]) -> Why | None:
        """The bound that stands in the way on every model the job accepts."""
        usage, bound, model = self.session.usage, None, ""
        for model in nodes:
            grains = self.session.grains(job, model, job.least_pods)
            bound = usage.over_limit(job.queue, model, grains)
            if bound is None and (job.preemptible or usage.fits_guarantee(job.queue, model, grains)):
                return None
        if not nodes:
            return None
        asked = GpuAmount(self.session.grains(job, model, job.least_pods))
        return self._over_limit(bound, asked) if bound else self._over_guarantee(job, asked)

    def _over_limit(self, bound: Bound, asked: GpuAmount) -> Why:
        used = self.session.usage.of(bound.queue)
        now = GpuAmount(sum(used.values()) if bound.key == ANY_MODEL else used.get(bound.key, 0))
        limit = GpuAmount(bound.grains)
        of = _gpus(bound.key)
        return Why(
            Reason.OVER_LIMIT,
            f"queue {bound.queue} may use {limit} {of}, it uses {now} and this job asks {asked}",
            f"the limit of queue {bound.queue} must be {now + asked} {of} or more",
        )

    def _over_guarantee(self, job: Job, asked: GpuAmount) -> Why:
        fixed = GpuAmount(sum(self.session.usage.fixed(job.queue).values()))
        due = self.session.tree.deserved(job.queue)
        says = ", ".join(f"{GpuAmount(g)} {_gpus(key)}" for key, g in sorted(due.items())) or "nothing"
        return Why(
            Reason.OVER_QUOTA_NON_PREEMPTIBLE,
            f"queue {job.queue} deserves {says}; work that may not be preempted holds {fixed}, this job asks {asked}",
            "marked preemptible it could use idle GPUs beyond what the queue deserves",
        )

    # ------------------------------------------------------------ place

    def _place(self, pending: Pending) -> Why:
        if head := self._holder(pending):
            return Why(
                Reason.BEHIND,
                f"{head} has waited longer and the free GPUs are reserved for it",
                f"it starts after {head}, or before if it declares a runtime that ends in time",
            )
        if self._fits(pending, frozenset()):  # the smallest slice that would do is within its quota, the free one not
            return Why(Reason.OVER_LIMIT, *DEARER)
        if self._fits(pending, EVERYTHING):
            for reason in BLAME:
                if self._fits(pending, frozenset({reason})):
                    return self._blamed(pending, reason)
        return self._scarce(pending)

    def _holder(self, pending: Pending) -> str | None:
        """Whose reservation alone keeps the job from starting."""
        session = self.session
        nodes = session.eligible(pending)
        holders = [r for model, r in session.reservations.items() if model in nodes and r.job != pending.job.id]
        mark = session.mark()
        for reservation in holders:
            session.ledger.lift(reservation.holder, reservation.nodes)
        fits = holders and self._fits(pending, frozenset())
        session.rollback(mark)
        return holders[0].job if fits else None

    def _fits(self, pending: Pending, ignore: frozenset[Reason]) -> bool:
        session = self.session
        ledger = self.healthy if Reason.UNHEALTHY in ignore and self.is_broken else session.ledger
        topology = session.topology
        job = pending.job
        if Reason.TOPOLOGY in ignore:
            job = relaxed(job)
        mark, before = ledger.mark(), ledger.ignore
        ledger.ignore = ignore
        found = place_gang(ledger, topology, Gang(job, job.least_pods, session.eligible(pending, ignore)))
        ledger.rollback(mark)
        ledger.ignore = before
        return found is not None

    def _blamed(self, pending: Pending, reason: Reason) -> Why:
        job = pending.job
        if reason is Reason.CAPACITY_TYPE:
            detail, unblock = WORDS[reason]
            return Why(reason, detail.format(" or ".join(job.capacity)), unblock)
        if reason is Reason.TOPOLOGY:
            level, best = job.topology.required, self._best_domain(pending)
            detail, unblock = WORDS[reason]
            return Why(reason, detail.format(level, best), unblock.format(level))
        return Why(reason, *WORDS[reason])

    def _best_domain(self, pending: Pending) -> str:
        """What the best domain of the required level has."""
        session, job = self.session, pending.job
        depth = session.topology.depth[job.topology.required or "cluster"]
        free, most, need = 0, 0, 0
        for model, names in session.eligible(pending).items():
            need = session.grains(job, model, job.least_pods)
            pool = pool_of(session.ledger, session.topology, names)
            pods = [np.minimum(pool.by_domain(depth, rooms(pool, s)), s.count) for s in job.pod_sets]
            free = max(free, int(pool.by_domain(depth, pool.now.free).max(initial=0)))
            most = max(most, int(np.add.reduce(pods).max(initial=0)))
        held = f"the best has {free} free GPUs and holds {most} of {job.least_pods} pods"
        return f"{held}, {GpuAmount(need)} GPUs are needed"

    # ------------------------------------------------------------ not enough, or in pieces

    def _scarce(self, pending: Pending) -> Why:
        job = pending.job
        amounts = [
            (free, need, model)
            for model, names in self.session.eligible(pending).items()
            for free, need in [(self._free(job, names), self.session.grains(job, model, job.least_pods))]
        ]
        if not amounts:
            return Why(Reason.UNHEALTHY, *WORDS[Reason.UNHEALTHY])
        free, need, model = max(amounts, key=lambda a: (a[0] - a[1], a[2]))
        if free >= need:
            return self._fragmented(pending, free, model)
        return Why(
            Reason.NOT_ENOUGH,
            f"{GpuAmount(need)} GPUs are needed, {GpuAmount(free)} are free",
            f"at least {GpuAmount(need - free)} more {model} must be free",
        )

    def _free(self, job: Job, names: list[str]) -> int:
        """Grains free for this kind of demand, wherever they are."""
        pool = pool_of(self.session.ledger, self.session.topology, names)
        kinds = frozenset(type(s.demand) for s in job.pod_sets)
        if kinds == {Whole}:
            return int(pool.now.free.sum()) * GRAIN
        left = pool.column(("left", kinds), lambda: one_by_one(lambda of, row: _left(of.books[row], kinds)))
        return int(left.sum())

    def _fragmented(self, pending: Pending, free: int, model: str) -> Why:
        books = [self.session.ledger.books[n] for n in self.session.eligible(pending)[model]]
        largest = max(len(b.free) for b in books)
        job = pending.job
        pod = max((s.demand.gpus for s in job.pod_sets if isinstance(s.demand, Whole)), default=0)
        if pod:
            return Why(
                Reason.FRAGMENTED,
                f"{GpuAmount(free)} GPUs are free in all, at most {largest} on one node; a pod needs {pod} together",
                f"a node must have {pod} free {model}",
            )
        return Why(
            Reason.FRAGMENTED,
            f"{GpuAmount(free)} GPUs are free in pieces, no piece is large enough",
            f"one {model} must be free of other work",
        )


def _gpus(key: str) -> str:
    return "GPUs" if key == ANY_MODEL else key


def _left(book: NodeBook, kinds: frozenset[type[Demand]]) -> int:
    """Grains that cards not in use as a whole could still give to such demands: slices, shares, whole pods."""
    found, cells = 0, book.node.model.memory_slices
    for usable, card in zip(book.usable, book.cards, strict=True):
        blocked = card.whole is not None or (card.taken and Slice not in kinds) or (card.shares and Share not in kinds)
        if usable and not blocked:
            free = cells - card.taken.bit_count()
            found += min(GRAIN * free // cells, GRAIN - card.milli * GRAIN // 1000)
    return found
