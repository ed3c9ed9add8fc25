"""Fleets of stated size for the benchmarks; the same arguments give the same fleet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from gpufleet.model.catalogue import gpu_models
from gpufleet.model.hardware import Device, Node
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job, Kind, PodSet, Whole
from gpufleet.units import GRAIN, GpuAmount

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEVELS = ("spine", "leaf")
GPUS = 8


def nodes(count: int, model: str = "H100-80") -> tuple[Node, ...]:
    """Nodes of eight GPUs, sixteen to a leaf, four leaves to a spine."""
    gpus = tuple(Device(i) for i in range(GPUS))
    found = gpu_models()[model]
    return tuple(Node(f"n{i}", found, gpus, (f"s{i // 64}", f"l{i // 16}")) for i in range(count))


def queues(count: int, gpus: int) -> tuple[Queue, ...]:
    """So many teams under the root that deserve the fleet in equal parts."""
    due = (("*", GpuAmount(gpus * GRAIN // count)),)
    return tuple(Queue(f"q{i}", None, deserved=due) for i in range(count))


def job(name: str, queue: str, gpus: int, pods: int = 1, waits: int = 0) -> Job:
    """A training job of equal pods that has waited so many minutes."""
    return Job(
        name,
        queue,
        "",
        queue,
        Kind.TRAINING,
        (PodSet(pods, Whole(gpus)),),
        NOW - timedelta(minutes=waits),
    )


def running(fleet: tuple[Node, ...], teams: int, busy: int, sizes: tuple[int, ...], rng: Random) -> Iterator[Running]:
    """Jobs on the first `busy` GPUs of every node, started hours ago, saved minutes ago."""
    for node in fleet:
        start = 0
        while start < busy:
            gpus = min(rng.choice(sizes), busy - start)
            name, queue = f"r-{node.name}-{start}", f"q{rng.randrange(teams)}"
            place = PodPlace(0, 0, node.name, tuple(range(start, start + gpus)))
            since, saved = timedelta(minutes=rng.randrange(60, 600)), timedelta(minutes=rng.randrange(1, 60))
            yield Running(job(name, queue, gpus), (place,), NOW - since, NOW - saved)
            start += gpus


def half_busy(count: int, waiting: int, teams: int) -> Snapshot:
    """Half of every node's GPUs in use, and a line of jobs of one to eight GPUs."""
    rng, fleet = Random(1), nodes(count)
    sizes = rng.choices((1, 2, 4, 8), (70, 10, 10, 10), k=waiting)
    pending = [
        Pending(job(f"p{i}", f"q{rng.randrange(teams)}", gpus, waits=rng.randrange(50))) for i, gpus in enumerate(sizes)
    ]
    held = tuple(running(fleet, teams, GPUS // 2, (1, 1, 2, 4), rng))
    return Snapshot(NOW, LEVELS, fleet, queues(teams, count * GPUS), held, tuple(pending))


def borrowed(count: int, teams: int, gang: int) -> Snapshot:
    """A fleet full of the work of teams that deserve less than they hold, and a gang of one that deserves much."""
    rng, fleet = Random(2), nodes(count)
    held = tuple(running(fleet, teams, GPUS, (1, 1, 1, 2, 4), rng))
    small = (("*", GpuAmount(GRAIN)),)
    teams_ = tuple(Queue(f"q{i}", None, deserved=small) for i in range(teams))
    owner = Queue("owner", None, deserved=(("*", GpuAmount(gang * GRAIN)),))
    waiting = Pending(job("gang", "owner", GPUS, pods=gang // GPUS))
    return Snapshot(NOW, LEVELS, fleet, (*teams_, owner), held, (waiting,))


def packed(count: int) -> Snapshot:
    """One GPU free on every node, and a gang of ten whole nodes that cannot be placed."""
    rng, fleet = Random(3), nodes(count)
    held = tuple(running(fleet, 10, GPUS - 1, (GPUS - 1,), rng))
    return Snapshot(NOW, LEVELS, fleet, queues(10, count * GPUS), held, (Pending(job("gang", "q1", GPUS, pods=10)),))
