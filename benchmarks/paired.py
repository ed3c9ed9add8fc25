"""Differences in pairs by seed: what two policies got of the same work."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from gpufleet.simulation.fleet.study import mean_of


@dataclass(frozen=True, slots=True)
class Paired:
    """Of differences by seed, in their own unit; `sd` and `ci95` (half the interval's width) are 0 for one seed."""

    mean: float
    sd: float
    ci95: float
    least: float
    by_seed: dict[int, float]


def differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """Ours minus theirs on the seeds that both have."""
    return _paired({seed: value - theirs[seed] for seed, value in ours.items() if seed in theirs})


def gains(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """Ours over theirs in percent, on the seeds that both have."""
    shared = {seed for seed in ours if theirs.get(seed)}
    return _paired({seed: 100 * (ours[seed] / theirs[seed] - 1) for seed in sorted(shared)})


def _paired(found: dict[int, float]) -> Paired:
    if not found:
        nothing = math.nan
        return Paired(nothing, nothing, nothing, nothing, {})
    values = list(found.values())
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return Paired(statistics.fmean(values), sd, mean_of(values).ci95, min(values), found)
