"""Our engine on the simulated fleet: a snapshot of it, a pass, and the plan carried out at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, GpuModel, MigRemake, Node
from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job, Kind, PodSet, Whole
from gpufleet.scheduling import apply, run_pass
from gpufleet.simulation.fleet.modes import Modes, card_names
from gpufleet.simulation.fleet.serving import slice_of
from gpufleet.simulation.fleet.spec import Fleet
from gpufleet.simulation.fleet.workload import Work
from gpufleet.simulation.fleet.world import World
from gpufleet.units import GRAIN, GpuAmount

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SERVING, TRAINING = "serving", "training"
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
        self._modes = Modes(world.spec.speed)

    def arrived(self, work: Work, now: float) -> None:
        job = replica(work, self._model) if work.is_replica else training(work, self._world.spec.training.pod)
        self._snapshot = replace(self._snapshot, pending=(*self._snapshot.pending, Pending(job)))

    def ended(self, work: Work, now: float) -> None:
        """Its places are free. Its slice is removed with it, as the DRA driver does, unless cards cannot be remade."""
        gone = next(r for r in self._snapshot.running if r.job.id == work.name)
        nodes = self._snapshot.nodes
        if self._keeps_slices and any(p.slices for p in gone.places):
            nodes = tuple(_with_free(n, gone.places) for n in nodes)
        running = tuple(r for r in self._snapshot.running if r is not gone)
        self._snapshot = replace(self._snapshot, nodes=nodes, running=running)

    @property
    def _keeps_slices(self) -> bool:
        return self._world.spec.fleet.mig != MigRemake.SLICE

    def decide(self, now: float) -> None:
        """A pass, unless nobody waits and nobody could gain by moving."""
        if not self._snapshot.pending and self._policy.leaf_slowdown <= 1:
            return
        at = START + timedelta(seconds=now)
        running = tuple(self._as_it_is(r, now) for r in self._snapshot.running)
        waiting = sorted(self._snapshot.pending, key=lambda p: (-p.job.priority, p.job.submitted_at, p.job.id))
        shown, rest = tuple(waiting[:MOST_WAITING]), waiting[MOST_WAITING:]
        snapshot = replace(self._snapshot, at=at, running=running, pending=shown)
        plan = run_pass(snapshot, self._policy, at)
        self._carry_out(plan)
        after = apply(snapshot, plan)
        self._snapshot = replace(after, nodes=after.nodes if self._keeps_slices else snapshot.nodes, pending=(*after.pending, *rest))

    def _as_it_is(self, run: Running, now: float) -> Running:
        job = self._world.jobs[run.job.id]
        job.advance(now)
        saved, started = job.last_save(now), job.started or 0.0
        return replace(
            run,
            started_at=START + timedelta(seconds=started),
            last_checkpoint_at=None if saved is None else START + timedelta(seconds=saved),
        )

    def _carry_out(self, plan: Plan) -> None:
        """Victims stop, movers go, the started start: at one instant."""
        world = self._world
        for name in sorted({e.job for e in plan.evictions}):
            world.stop(name)
        for move in plan.moves:
            places = {p.rank: p for p in next(r for r in self._snapshot.running if r.job.id == move.job).places}
            places |= {p.rank: p for p in move.places}
            self._modes.delay(move.places, waits_for_others=False)
            world.move(move.job, self._nodes(tuple(places.values())), card_names(tuple(places.values())))
        for placement in plan.placements:
            delay = self._modes.delay(placement.pods, waits_for_others=bool(placement.after))
            world.start(placement.job, self._nodes(placement.pods), delay, card_names(placement.pods))
            work = world.jobs[placement.job].work
            if work.is_replica and work.uses * self._model.memory_mib > self._slice_mib(placement.pods[0]):
                world.counts.kills += 1

    def _nodes(self, places: Sequence[PodPlace]) -> list[int]:
        return [self._number[p.node] for p in places]

    def _slice_mib(self, place: PodPlace) -> int:
        profile = self._model.profile(place.slices[0].instance.profile)
        assert profile is not None
        return profile.memory_mib


def nodes_of(fleet: Fleet, model: GpuModel) -> tuple[Node, ...]:
    """The fleet's nodes, in leaves."""
    devices = tuple(Device(i) for i in range(fleet.gpus))
    remake = MigRemake(fleet.mig)
    return tuple(Node(f"n{i}", model, devices, (f"l{i // fleet.per_leaf}",), mig=remake) for i in range(fleet.nodes))


def training(work: Work, most: int) -> Job:
    """A gang of equal pods, at most `most` GPUs each."""
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
    need = slice_of(work.memory, work.compute, model)
    at = START + timedelta(seconds=work.arrives)
    return Job(work.name, SERVING, "", SERVING, Kind.INFERENCE, (PodSet(1, need),), at, priority=100)


def _with_free(node: Node, places: Sequence[PodPlace]) -> Node:
    freed = {s.gpu: s.instance for p in places if p.node == node.name for s in p.slices}
    if not freed:
        return node
    devices = tuple(
        replace(d, instances=tuple(sorted({*d.instances, freed[d.index]}))) if d.index in freed else d
        for d in node.devices
    )
    return replace(node, devices=devices)
