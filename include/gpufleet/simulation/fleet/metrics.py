"""One run in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from gpufleet.simulation.fleet.bound import fluid_bound
from gpufleet.simulation.fleet.progress import Progress
from gpufleet.simulation.fleet.shares import Bounds, Shares, bounds, shares
from gpufleet.simulation.fleet.world import World

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Result:
    """Of one seed. Waits are seconds until the first start; who never started has waited until the horizon."""

    seed: int
    effective_throughput: float
    """Nominal GPU-hours of training finished by the last arrival, over GPUs x time."""
    useful_utilisation: float
    oom_kills: int
    training_waits: tuple[float, ...]
    inference_waits: tuple[float, ...]
    big_waits: tuple[float, ...]
    """Of the gangs of the largest size."""
    evictions: int
    moves: int
    lost_gpu_hours: float
    served: float
    """Part of the replicas that started."""
    replica_moves: int
    starts: int
    """Of jobs that waited: what moves are counted against."""
    interruptions: int
    """Jobs stopped by the loss of a node."""
    bound: float
    """Effective throughput that no policy exceeds on this work (`bound.py`)."""
    class_waits: Mapping[str, Sequence[float]]
    """Training waits by the number of GPUs asked for (`size_class`), small before large."""
    losses: Mapping[str, float]
    """Part of all GPU time that was no work, by where it went (`Losses`); empty where services run too."""
    fairness: tuple[float, ...]
    """By team, GPU-time got over due."""
    shares: Shares
    bounds: Bounds


def result(world: World, seed: int) -> Result:
    """What a world that has run through comes to."""
    jobs, capacity = list(world.jobs.values()), world.spec.fleet.total * world.horizon
    warm = world.spec.warmup
    training = [j for j in jobs if not j.work.is_replica]
    replicas = [j for j in jobs if j.work.is_replica and j.work.arrives >= warm]
    finished = sum(j.work.seconds * j.work.gpus for j in training if j.ended is not None)
    time = shares(world.books, world.spec.fleet.total, world.horizon)
    largest = max((j.work.gpus for j in training), default=0)
    return Result(
        seed,
        finished / capacity,
        time.useful,
        world.counts.kills,
        _waits([j for j in training if j.work.arrives >= warm], world.horizon),
        _waits(replicas, world.horizon),
        _waits([j for j in training if j.work.gpus == largest], world.horizon),
        world.counts.evictions,
        world.counts.moves,
        world.counts.lost / HOUR,
        sum(j.first_start is not None for j in replicas) / len(replicas) if replicas else 1.0,
        world.counts.replica_moves,
        world.counts.starts,
        world.counts.interruptions,
        fluid_bound([j.work for j in training], world.spec.fleet.total, world.horizon) / capacity,
        _by_class(training, world.horizon),
        {} if replicas else {name: seconds / capacity for name, seconds in asdict(world.counts.losses).items()},
        world.fairness.ratios(),
        time,
        bounds(world.spec, world.books, world.horizon),
    )


def _by_class(jobs: Sequence[Progress], horizon: float) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[Progress]] = {}
    for job in sorted(jobs, key=lambda j: j.work.gpus):
        found.setdefault(size_class(job.work.gpus), []).append(job)
    return {name: _waits(members, horizon) for name, members in found.items()}


def size_class(gpus: int) -> str:
    """1, then 2-7 together, then every number of GPUs for itself."""
    return "2-7" if 1 < gpus < 8 else str(gpus)


def _waits(jobs: Sequence[Progress], horizon: float) -> tuple[float, ...]:
    return tuple((horizon if j.first_start is None else j.first_start) - j.work.arrives for j in jobs)


def quantile(values: Sequence[float], part: float) -> float:
    """The nearest-rank quantile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
