"""Replicas of services: what one needs, the slice it is given, and the fewest cards that hold many of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import GpuModel, MigProfile
from gpufleet.model.workload import Slice
from gpufleet.placement.geometry import geometry
from gpufleet.simulation.fleet.spec import Serving, Spec


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of replica. `memory` (the estimate) and `compute` are parts of a card; `part` of all replicas are so."""

    part: float
    memory: float
    compute: float

    @property
    def demand(self) -> float:
        """GPUs that one replica makes useful: the larger part it needs."""
        return max(self.memory, self.compute)


def services(spec: Spec) -> tuple[Service, ...]:
    """The services of an experiment as they ask for slices, sized where the spec says so."""
    plain = [Service(*row) for row in spec.serving.needs]
    if not spec.serving.sized:
        return tuple(plain)
    return tuple(sized(s, spec.serving, gpu_model(spec.fleet.model)) for s in plain)


def sized(service: Service, serving: Serving, model: GpuModel) -> Service:
    """The service grown to its slice: memory and compute in proportion, until one of them is full.

    Full is `fill` of the slice's compute, or an estimate of memory that with its margin is all the slice reports.
    Presumes that the service has at least a slice's worth of traffic.
    """
    profile = smallest(service, serving.margin, model)
    compute = serving.fill * profile.compute / model.compute_slices / service.compute
    memory = profile.memory_mib / model.memory_mib / (1 + serving.margin) / service.memory
    growth = min(compute, memory)
    return replace(service, memory=service.memory * growth, compute=service.compute * growth)


def smallest(service: Service, margin: float, model: GpuModel) -> MigProfile:
    """The slice such a replica asks for; raises ValueError where no slice of the model holds it."""
    found = geometry(model).suitable(slice_of(service.memory * (1 + margin), service.compute, model))
    if not found:
        raise ValueError(f"no slice of {model.name} holds {service.memory:g} of its memory and {service.compute:g}")
    return found[0]


def slice_of(memory: float, compute: float, model: GpuModel) -> Slice:
    """Parts of a card as a demand: MiB rounded down to what a slice reports, compute up to a whole slice."""
    return Slice(int(memory * model.memory_mib + 1e-6), max(1, math.ceil(compute * model.compute_slices - 1e-9)))


# ---------------------------------------------------------------- how many cards they take at least


def fewest_cards(replicas: Mapping[Service, float], margin: float, model: GpuModel) -> float:
    """Cards that hold so many replicas of each kind at least, cards divisible: a linear program over legal layouts.

    A lower bound for any whole number of cards, and of the mean over time by the mean of the replicas (it is convex).
    """
    from scipy.optimize import linprog  # heavy, and only experiments with services need it

    kinds = [k for k, count in replicas.items() if count > 0]
    if not kinds:
        return 0.0
    columns = np.array(_columns(tuple(_fitting(k, margin, model) for k in kinds), model.name)).T
    wanted = np.array([replicas[k] for k in kinds])
    found = linprog(np.ones(columns.shape[1]), A_ub=-columns, b_ub=-wanted, method="highs")
    return float(found.fun)


def _fitting(service: Service, margin: float, model: GpuModel) -> frozenset[str]:
    demand = slice_of(service.memory * (1 + margin), service.compute, model)
    return frozenset(p.name for p in geometry(model).suitable(demand))


@cache
def _columns(kinds: Sequence[frozenset[str]], name: str) -> list[tuple[int, ...]]:
    """All ways to fill one card: by layout and by who takes which of its slices, as counts of each kind."""
    found: set[tuple[int, ...]] = set()
    for layout in layouts(gpu_model(name)):
        upto = {(0,) * len(kinds)}
        for profile in layout:
            takers = [i for i, fitting in enumerate(kinds) if profile in fitting]
            upto = {_plus(t, i) for t in upto for i in takers} or upto
        found |= upto
    return [one for one in found if any(one)]


def _plus(counts: tuple[int, ...], index: int) -> tuple[int, ...]:
    return (*counts[:index], counts[index] + 1, *counts[index + 1 :])


def layouts(model: GpuModel) -> set[tuple[str, ...]]:
    """Every legal layout of a card that takes no further slice, as sorted names."""
    table = geometry(model)
    cuts = [(p, c.mask) for p in model.profiles if p.name.endswith("gb") for c in table.cuts[p.name]]
    found: set[tuple[str, ...]] = set()

    def grow(taken: int, names: tuple[str, ...], first: int) -> None:
        fits = [(i, p, m) for i, (p, m) in enumerate(cuts) if not m & taken and names.count(p.name) < p.max_instances]
        if not fits:
            found.add(tuple(sorted(names)))
        for index, profile, mask in fits:
            if index >= first:
                grow(taken | mask, (*names, profile.name), index + 1)

    grow(0, (), 0)
    return found
