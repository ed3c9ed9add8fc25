"""Arrivals of one seed: training jobs and serving replicas, in order of time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

from gpufleet.simulation.fleet.serving import Service, services
from gpufleet.simulation.fleet.spec import DAY, Serving, Spec


class Random(Protocol):
    """What a workload needs of a seeded generator."""

    def random(self) -> float: ...

    def uniform(self, a: float, b: float) -> float: ...

    def expovariate(self, lambd: float) -> float: ...

    def gauss(self, mu: float, sigma: float) -> float: ...

    def choice(self, seq: tuple[object, ...], /) -> object: ...

    def randrange(self, start: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Work:
    """One job: `seconds` of work at full speed on `gpus` GPUs; a replica asks for a part of a card instead."""

    name: str
    arrives: float
    seconds: float
    gpus: int
    declared: float = 0.0
    interval: float | None = None
    """Between saves; None: it never saves."""
    memory: float = 0.0
    """A replica: part of the card's memory it asks for, and what it will really use."""
    uses: float = 0.0
    compute: float = 0.0
    team: int = 0
    """Of a training job, by the experiment's teams."""
    service: int = 0
    """Which of the experiment's services it is a replica of."""

    @property
    def is_replica(self) -> bool:
        return self.gpus == 0

    @property
    def demand(self) -> float:
        """GPUs it makes useful: all of a training job's, of a card the larger part a replica really needs."""
        return max(self.uses, self.compute) if self.is_replica else float(self.gpus)


def workload(spec: Spec, random: Random) -> list[Work]:
    """All arrivals; the last one's time is the horizon of the metrics."""
    training = [_training(spec, random, i) for i in range(_count(spec))]
    offered = sum(w.seconds * w.gpus for w in training)
    horizon = offered / (spec.fleet.total * spec.load * spec.training_share) if training else 7 * DAY
    if training:
        training = _spread(training, horizon, random)
    training = [replace(job, team=team) for job, team in zip(training, _teams(spec, random), strict=False)]
    return sorted([*training, *_replicas(spec, random, horizon)], key=lambda w: (w.arrives, w.name))


def _count(spec: Spec) -> int:
    return spec.jobs if spec.training_share > 0 else 0


def _training(spec: Spec, random: Random, number: int) -> Work:
    seconds, gpus = spec.pairs[random.randrange(len(spec.pairs))]
    if gpus == spec.fleet.gpus:
        chance = random.random()
        for size, part in spec.training.tail:
            if chance < part and size <= spec.fleet.total:
                gpus = size
                break
            chance -= part
    seconds = min(seconds, spec.training.longest)
    saves = random.random() < spec.training.checkpointable
    interval = spec.training.intervals[random.randrange(len(spec.training.intervals))] if saves else None
    declared = seconds * random.uniform(1.0, spec.training.declared)
    return Work(f"t{number:05d}", 0.0, seconds, gpus, declared, interval)


def _teams(spec: Spec, random: Random) -> Iterator[int]:
    """Whose each job is; drawn after everything about the jobs, so that teams change nothing else of them."""
    upto = list(accumulate(part for part, _ in spec.teams))
    while True:
        yield bisect_left(upto, random.random() * upto[-1]) if upto else 0


def _spread(jobs: list[Work], horizon: float, random: Random) -> list[Work]:
    """Poisson arrivals, scaled so that the last comes at the horizon."""
    times, at = [], 0.0
    for _ in jobs:
        at += random.expovariate(1.0)
        times.append(at)
    return [replace(job, arrives=t * horizon / at) for job, t in zip(jobs, times, strict=True)]


def _replicas(spec: Spec, random: Random, horizon: float) -> Iterator[Work]:
    """A Poisson stream whose rate follows the day (thinning)."""
    serving, part, kinds = spec.serving, 1 - spec.training_share, services(spec)
    if part <= 0 or not kinds:
        return
    mean = sum(k.part * k.demand for k in kinds) / sum(k.part for k in kinds)
    rate = part * spec.load * spec.fleet.total / (mean * serving.life)
    at, number = 0.0, 0
    while True:
        at += random.expovariate(rate * (1 + serving.swing))
        if at > horizon:
            return
        if random.random() * (1 + serving.swing) < 1 + serving.swing * math.sin(2 * math.pi * at / DAY):
            yield _replica(serving, kinds, random, number, at)
            number += 1


def _replica(serving: Serving, kinds: Sequence[Service], random: Random, number: int, at: float) -> Work:
    upto = list(accumulate(k.part for k in kinds))
    which = bisect_left(upto, random.random() * upto[-1])
    kind = kinds[which]
    error = max(-serving.clip, min(serving.clip, random.gauss(0.0, serving.error)))
    life, asked = random.expovariate(1 / serving.life), kind.memory * (1 + serving.margin)
    uses = kind.memory * (1 + error)
    return Work(f"i{number:06d}", at, life, 0, memory=asked, uses=uses, compute=kind.compute, service=which)
