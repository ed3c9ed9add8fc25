"""A policy over several seeds of one experiment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from gpufleet.errors import Invalid
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.simulation.fleet.faults import faults
from gpufleet.simulation.fleet.kube import KubeDefault
from gpufleet.simulation.fleet.metrics import Result, result
from gpufleet.simulation.fleet.ours import Ours
from gpufleet.simulation.fleet.spec import Spec
from gpufleet.simulation.fleet.workload import Random, workload
from gpufleet.simulation.fleet.world import Policy, World

POLICIES: Final = ("kube-default", "binpack", "gpufleet")
DEFINITIONS: Final = {
    "kube-default": "one pod at a time, whole GPUs, most free node first (LeastAllocated on cpu and memory asked in proportion)"
    ", random ties, later pods may overtake, partial gangs hold; release: they give back after so long",
    "binpack": "the same with the fullest node that fits first (MostAllocated)",
    "gpufleet": "the product's own pass: gangs whole, no reservations, leaf moves at slowdown 1.1, net gain over 4 h; a gang"
    " is always asked for in pods of whole nodes, whatever training.pod says of the baselines' pods; services deserve the"
    " fleet and are moved after 15 min (60 s out of service); MIG mode by card (10 s), slices made and removed with their"
    " replicas",
}
# Declared runtimes are loose upper bounds: a reservation would drain GPUs for hours. What a fleet for throughput would set.
THROUGHPUT: Final = SchedulingPolicy(
    ageing_bound=timedelta(hours=72),
    reserve=False,
    leaf_slowdown=1.1,
    fresh_checkpoint=timedelta(hours=1),
    net_gain_horizon=timedelta(hours=4),
    net_gain_seniority=False,
    move_services=timedelta(minutes=15),
)
FAULTS_OF: Final = 1_000_000
"""Added to a seed for its losses of nodes: the same for every policy, and the work stays as it is without them."""
T95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t, two-sided 95 %, for 1 to 10 degrees of freedom; 1.96 beyond."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and half the width of its 95 % confidence interval (0 for one seed)."""

    mean: float
    ci95: float


def mean_of(values: Sequence[float]) -> Mean:
    """Of one figure by seed."""
    if len(values) < 2:
        return Mean(statistics.fmean(values), 0.0)
    t = T95[len(values) - 2] if len(values) - 2 < len(T95) else 1.96
    return Mean(statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values)))


def study(
    spec: Spec,
    policy: str,
    seeds: Sequence[int],
    seeded: Callable[[int], Random],
    progress: Callable[[int, float], None] = lambda _, __: None,
) -> list[Result]:
    """One result per seed; the workload depends on the seed alone, so policies can be compared in pairs."""
    if policy not in POLICIES:
        raise Invalid(f"policy '{policy}' is not known; known are {', '.join(POLICIES)}.")
    return [_run(spec, policy, seed, seeded, progress) for seed in seeds]


def _run(
    spec: Spec,
    policy: str,
    seed: int,
    seeded: Callable[[int], Random],
    progress: Callable[[int, float], None],
) -> Result:
    works = workload(spec, seeded(seed))
    if not works:
        raise Invalid("the experiment has no work: jobs, load or serving.needs are too small.")
    world = World(spec if policy != "gpufleet" else replace(spec, release=None))
    chosen: Policy = (
        Ours(world, THROUGHPUT) if policy == "gpufleet" else KubeDefault(world, seeded(-seed), policy == "binpack")
    )
    lost = tuple(faults(spec, seeded(seed + FAULTS_OF), works[-1].arrives))
    world.run(works, chosen, lambda part: progress(seed, part), lost)
    return result(world, seed)
