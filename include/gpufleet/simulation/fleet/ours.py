"""Our engine on the simulated fleet: a snapshot of it, a pass, and the plan carried out at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, GpuModel, Node, NodeState
from gpufleet.model.plan import Move, Placement, Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job, Kind, PodSet, Whole
from gpufleet.scheduling import decisions
from gpufleet.simulation.fleet.modes import Modes, card_names
from gpufleet.simulation.fleet.serving import slice_of
from gpufleet.simulation.fleet.spec import Fleet, Spec
from gpufleet.simulation.fleet.workload import Work
from gpufleet.simulation.fleet.world import World
from gpufleet.units import GRAIN, GpuAmount

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SERVING, TRAINING = "serving", "training"
LEAST_LEFT: Final = 60.0
"""Seconds that a job which outlives its declared runtime still declares."""
BETWEEN_PASSES: Final = 60.0
"""Seconds at most between passes, as with the product's own clockwork (`fleet_sync`)."""
MOST_WAITING: Final = 400
"""Jobs shown to one pass, in order of arrival; the others could not be reached before them."""


class Ours:
    """Two queues: services deserve the fleet, training borrows what they leave.

    A slice is made for a replica and removed with it, as the DRA driver does: no free instance stays on a card.
    """

    def __init__(self, world: World, policy: SchedulingPolicy) -> None:
        self._world, self._policy = world, policy
        fleet = world.spec.fleet
        self._model = gpu_model(fleet.model)
        self._fleet = Snapshot(START, ("leaf",), nodes_of(fleet, self._model), queues_of(world.spec))
        self._number = {n.name: i for i, n in enumerate(self._fleet.nodes)}
        self._running: dict[str, Running] = {}
        self._pending: dict[str, Pending] = {}
        """By name, as they were asked for; what was stopped declares what is left of its runtime."""
        self._rests = False
        self._modes = Modes(world.spec.speed)

    def arrived(self, work: Work, now: float) -> None:
        job = replica(work, self._model) if work.is_replica else training(work, self._world.spec)
        self._pending[work.name] = Pending(job)
        self._rests = False

    def ended(self, work: Work, now: float) -> None:
        """What a replica leaves is looked at with the next event, within a minute, unless another replica waits."""
        del self._running[work.name]
        self._rests = work.is_replica and not any(p.job.kind is Kind.INFERENCE for p in self._pending.values())
        if self._rests:
            self._world.wake(now + BETWEEN_PASSES)

    def noticed(self, node: int, now: float) -> None:
        """Nothing new goes there."""
        self._becomes(node, NodeState.RECLAIMING)

    def lost(self, node: int, works: Sequence[Work], now: float) -> None:
        """Its jobs wait again."""
        self._becomes(node, NodeState.LOST)
        for work in works:
            self._waits_again(work.name)

    def back(self, node: int, now: float) -> None:
        self._becomes(node, NodeState.READY)

    def _becomes(self, node: int, state: NodeState) -> None:
        nodes = list(self._fleet.nodes)
        nodes[node] = replace(nodes[node], state=state)
        self._fleet, self._rests = replace(self._fleet, nodes=tuple(nodes)), False

    def decide(self, now: float) -> None:
        """A pass, unless nobody waits and nobody could gain by moving, or the next event is soon enough."""
        rests, self._rests = self._rests, False
        if rests or (not self._pending and self._policy.leaf_slowdown <= 1):
            return
        at = START + timedelta(seconds=now)
        running = tuple(self._as_it_is(r, now) for r in self._running.values())
        shown = sorted(self._pending.values(), key=lambda p: (-p.job.priority, p.job.submitted_at, p.job.id))
        snapshot = replace(self._fleet, at=at, running=running, pending=tuple(shown[:MOST_WAITING]))
        self._carry_out(decisions(snapshot, self._policy_now(), at), at)

    def _policy_now(self) -> SchedulingPolicy:
        """The policy, with no more moves than the experiment's budget has left."""
        part, counts = self._world.spec.moves, self._world.counts
        if part is None:
            return self._policy
        left = max(0, int(part * counts.starts) - counts.moves)
        return replace(self._policy, moves_per_pass=min(left, self._policy.moves_per_pass))

    def _as_it_is(self, run: Running, now: float) -> Running:
        """A service saves nothing: it is as it was when it started."""
        if run.job.kind is Kind.INFERENCE:
            return run
        job = self._world.jobs[run.job.id]
        job.advance(now)
        saved, started = job.last_save(now), job.started or 0.0
        last = None if saved is None else START + timedelta(seconds=saved)
        return Running(run.job, run.places, START + timedelta(seconds=started), last)

    def _carry_out(self, plan: Plan, at: datetime) -> None:
        """Victims stop, movers go, the started start: at one instant. Gangs are stopped whole, for none is elastic."""
        for name in sorted({e.job for e in plan.evictions}):
            self._world.stop(name)
            self._waits_again(name)
        for move in plan.moves:
            self._move(move)
        for placement in plan.placements:
            self._start(placement, at)

    def _move(self, move: Move) -> None:
        run = self._running[move.job]
        places = tuple(({p.rank: p for p in run.places} | {p.rank: p for p in move.places}).values())
        self._modes.delay(move.places, waits_for_others=False)
        self._world.move(move.job, self._nodes(places), card_names(places))
        self._running[move.job] = replace(run, job=self._declared(run.job), places=places)

    def _waits_again(self, name: str) -> None:
        self._pending[name] = Pending(self._declared(self._running.pop(name).job))

    def _declared(self, job: Job) -> Job:
        """It declares what is left of its runtime, from the work that is safe."""
        if job.runtime is None:
            return job
        progress = self._world.jobs[job.id]
        return replace(job, runtime=timedelta(seconds=max(LEAST_LEFT, progress.work.declared - progress.done)))

    def _start(self, placement: Placement, at: datetime) -> None:
        delay = self._modes.delay(placement.pods, waits_for_others=bool(placement.after))
        self._running[placement.job] = Running(self._pending.pop(placement.job).job, placement.pods, at)
        self._world.start(placement.job, self._nodes(placement.pods), delay, card_names(placement.pods))
        work = self._world.jobs[placement.job].work
        if work.is_replica and work.uses * self._model.memory_mib > self._slice_mib(placement.pods[0]):
            self._world.counts.kills += 1

    def _nodes(self, places: Sequence[PodPlace]) -> list[int]:
        return [self._number[p.node] for p in places]

    def _slice_mib(self, place: PodPlace) -> int:
        profile = self._model.profile(place.slices[0].instance.profile)
        assert profile is not None
        return profile.memory_mib


def nodes_of(fleet: Fleet, model: GpuModel) -> tuple[Node, ...]:
    """The fleet's nodes, in leaves."""
    devices = tuple(Device(i) for i in range(fleet.gpus))
    return tuple(Node(f"n{i}", model, devices, (f"l{i // fleet.per_leaf}",)) for i in range(fleet.nodes))


def queues_of(spec: Spec) -> tuple[Queue, ...]:
    """Services deserve what the teams do not; without teams they deserve all, and training is one queue."""
    rest = spec.fleet.total - sum(gpus for _, gpus in spec.teams)
    teams = tuple(Queue(queue_of(spec, i), TRAINING, deserved=_gpus(g)) for i, (_, g) in enumerate(spec.teams))
    return (Queue(SERVING, None, deserved=_gpus(rest)), Queue(TRAINING, None), *teams)


def queue_of(spec: Spec, team: int) -> str:
    """The queue of a team's training."""
    return f"team-{team}" if spec.teams else TRAINING


def _gpus(count: float) -> tuple[tuple[str, GpuAmount], ...]:
    return (("*", GpuAmount(round(count * GRAIN))),)


def training(work: Work, spec: Spec) -> Job:
    """A gang of equal pods of a node's GPUs, or one smaller pod: asked for so that it never stands on needless nodes."""
    gpus = min(work.gpus, spec.fleet.gpus)
    return Job(
        work.name,
        TRAINING,
        "",
        queue_of(spec, work.team),
        Kind.TRAINING,
        (PodSet(work.gpus // gpus, Whole(gpus)),),
        START + timedelta(seconds=work.arrives),
        runtime=timedelta(seconds=work.declared),
    )


def replica(work: Work, model: GpuModel) -> Job:
    """A service's replica: a slice that holds what it asks for."""
    need = slice_of(work.memory, work.compute, model)
    at = START + timedelta(seconds=work.arrives)
    return Job(work.name, SERVING, "", SERVING, Kind.INFERENCE, (PodSet(1, need),), at, priority=100)
