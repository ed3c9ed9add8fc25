"""Our engine on the simulated fleet: a snapshot of it, a pass, and the plan carried out at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, GpuModel, Node, NodeState
from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job, Kind, PodSet, Slice, Whole
from gpufleet.scheduling import apply, decisions
from gpufleet.simulation.fleet.spec import Fleet
from gpufleet.simulation.fleet.workload import Work
from gpufleet.simulation.fleet.world import World
from gpufleet.units import GRAIN, GpuAmount

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SERVING, TRAINING = "serving", "training"
LEAST_LEFT: Final = 60.0
"""Seconds that a job which outlives its declared runtime still declares."""
MOST_WAITING: Final = 400
"""Jobs shown to one pass, in order of arrival; the others could not be reached before them."""


class Ours:
    """Two queues: services deserve the fleet, training borrows what they leave."""

    def __init__(self, world: World, policy: SchedulingPolicy) -> None:
        self._world, self._policy = world, policy
        fleet = world.spec.fleet
        self._model = gpu_model(fleet.model)
        everything = (("*", GpuAmount(fleet.total * GRAIN)),)
        queues = (Queue(SERVING, None, deserved=everything), Queue(TRAINING, None))
        self._snapshot = Snapshot(START, ("leaf",), nodes_of(fleet, self._model), queues)
        self._number = {n.name: i for i, n in enumerate(self._snapshot.nodes)}
        self._jobs: dict[str, Job] = {}
        """As they were asked for; what runs and what was stopped declares what is left of its runtime."""

    def arrived(self, work: Work, now: float) -> None:
        job = replica(work, self._model) if work.is_replica else training(work, self._world.spec.fleet.gpus)
        self._jobs[work.name] = job
        self._snapshot = replace(self._snapshot, pending=(*self._snapshot.pending, Pending(job)))

    def ended(self, work: Work, now: float) -> None:
        """Its places are free; a slice goes on existing."""
        gone = next(r for r in self._snapshot.running if r.job.id == work.name)
        nodes = self._snapshot.nodes
        if any(p.slices for p in gone.places):
            nodes = tuple(_with_free(n, gone.places) for n in nodes)
        running = tuple(r for r in self._snapshot.running if r is not gone)
        self._snapshot = replace(self._snapshot, nodes=nodes, running=running)

    def noticed(self, node: int, now: float) -> None:
        """Nothing new goes there."""
        self._becomes(node, NodeState.RECLAIMING)

    def lost(self, node: int, works: Sequence[Work], now: float) -> None:
        """Its jobs wait again."""
        self._becomes(node, NodeState.LOST)
        names = [w.name for w in works]
        running = tuple(r for r in self._snapshot.running if r.job.id not in names)
        for name in names:
            self._declare(name)
        waiting = [*self._snapshot.pending, *(Pending(self._jobs[name]) for name in names)]
        self._snapshot = replace(self._snapshot, running=running, pending=self._in_line(waiting))

    def back(self, node: int, now: float) -> None:
        """As it was at first, without slices."""
        self._becomes(node, NodeState.READY)

    def _becomes(self, node: int, state: NodeState) -> None:
        nodes = list(self._snapshot.nodes)
        bare = tuple(Device(d.index) for d in nodes[node].devices)
        nodes[node] = replace(
            nodes[node], state=state, devices=bare if state is NodeState.LOST else nodes[node].devices
        )
        self._snapshot = replace(self._snapshot, nodes=tuple(nodes))

    def decide(self, now: float) -> None:
        """A pass, unless nobody waits and nobody could gain by moving."""
        if not self._snapshot.pending and self._policy.leaf_slowdown <= 1:
            return
        at = START + timedelta(seconds=now)
        running = tuple(self._as_it_is(r, now) for r in self._snapshot.running)
        shown, rest = self._snapshot.pending[:MOST_WAITING], self._snapshot.pending[MOST_WAITING:]
        snapshot = replace(self._snapshot, at=at, running=running, pending=shown)
        plan = decisions(snapshot, self._policy, at)
        self._carry_out(plan)
        after = apply(snapshot, plan)
        self._snapshot = replace(after, pending=self._in_line([*after.pending, *rest]))

    def _in_line(self, waiting: Sequence[Pending]) -> tuple[Pending, ...]:
        """In order of arrival, each as it was asked for."""
        as_asked = (Pending(self._jobs[p.job.id]) for p in waiting)
        return tuple(sorted(as_asked, key=lambda p: (p.job.submitted_at, p.job.id)))

    def _as_it_is(self, run: Running, now: float) -> Running:
        job = self._world.jobs[run.job.id]
        job.advance(now)
        saved, started = job.last_save(now), job.started or 0.0
        return replace(
            run,
            job=self._jobs[run.job.id],
            started_at=START + timedelta(seconds=started),
            last_checkpoint_at=None if saved is None else START + timedelta(seconds=saved),
        )

    def _carry_out(self, plan: Plan) -> None:
        """Victims stop, movers go, the started start: at one instant."""
        world = self._world
        for name in sorted({e.job for e in plan.evictions}):
            world.stop(name)
            self._declare(name)
        for move in plan.moves:
            places = {p.rank: p for p in next(r for r in self._snapshot.running if r.job.id == move.job).places}
            places |= {p.rank: p for p in move.places}
            world.move(move.job, self._nodes(tuple(places.values())))
            self._declare(move.job)
        for placement in plan.placements:
            world.start(placement.job, self._nodes(placement.pods))
            work = world.jobs[placement.job].work
            if work.is_replica and work.uses * self._model.memory_mib > self._slice_mib(placement.pods[0]):
                world.counts.kills += 1

    def _declare(self, name: str) -> None:
        """What is left of the declared runtime, from the work that is safe."""
        job, progress = self._jobs[name], self._world.jobs[name]
        if job.runtime is not None:
            left = max(LEAST_LEFT, progress.work.declared - progress.done)
            self._jobs[name] = replace(job, runtime=timedelta(seconds=left))

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


def training(work: Work, most: int) -> Job:
    """A gang of equal pods of `most` GPUs, or one smaller pod: asked for so that it never stands on needless nodes."""
    gpus = min(work.gpus, most)
    return Job(
        work.name,
        TRAINING,
        "",
        TRAINING,
        Kind.TRAINING,
        (PodSet(work.gpus // gpus, Whole(gpus)),),
        START + timedelta(seconds=work.arrives),
        runtime=timedelta(seconds=work.declared),
    )


def replica(work: Work, model: GpuModel) -> Job:
    """A service's replica: a slice that holds what it asks for."""
    need = Slice(memory_mib=math.ceil(work.memory * model.memory_mib), compute=_compute(work, model))
    at = START + timedelta(seconds=work.arrives)
    return Job(work.name, SERVING, "", SERVING, Kind.INFERENCE, (PodSet(1, need),), at, priority=100)


def _compute(work: Work, model: GpuModel) -> int:
    return max(1, math.ceil(work.compute * model.compute_slices - 1e-9))


def _with_free(node: Node, places: Sequence[PodPlace]) -> Node:
    freed = {s.gpu: s.instance for p in places if p.node == node.name for s in p.slices}
    if not freed:
        return node
    devices = tuple(
        replace(d, instances=tuple(sorted({*d.instances, freed[d.index]}))) if d.index in freed else d
        for d in node.devices
    )
    return replace(node, devices=devices)
