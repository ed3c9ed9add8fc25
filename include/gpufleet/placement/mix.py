"""The recent demand: which kinds of pods are asked for, and how often. What comes next is guessed from it.

Shares and whole GPUs only: slices are weighed on their own grid (`geometry.Room`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpufleet.model.workload import PodSet, Share, Whole
from gpufleet.units import MIB_PER_GIB

FEWEST: Final = 25
"""Pods seen before they are believed; until then the prior stands alone (docs/placement.md, section 1)."""


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """One kind of pod: `milli` thousandths of one GPU, or 1000 x n for n whole GPUs; cores and GiB of its host."""

    milli: int
    cpu: float = 0.0
    memory_gib: float = 0.0
    is_share: bool = False


@dataclass(frozen=True)
class Mix:
    """Kinds of pods with how often each was asked for; sorted, so that equal demand is equal."""

    counts: tuple[tuple[Ask, float], ...]

    @cached_property
    def total(self) -> float:
        return sum(count for _, count in self.counts)

    @property
    def shares(self) -> dict[int, float]:
        """How often shares of each size (thousandths) are asked for."""
        found: dict[int, float] = {}
        for ask, count in self.counts:
            if ask.is_share:
                found[ask.milli] = found.get(ask.milli, 0.0) + count
        return found


# Heavy in large pods, for a prior that underrates them breaks idle nodes too early (docs/placement.md, section 1).
# Cores and GiB per GPU are those of a common training node.
PRIOR: Final = Mix(tuple((Ask(1000 * n, 12.0 * n, 48.0 * n), count) for n, count in ((1, 4), (2, 2), (4, 2), (8, 2))))


def ask_of(pod_set: PodSet) -> Ask | None:
    """The kind of one pod of the set; None for slices."""
    cpu, memory = pod_set.cpu or 0.0, (pod_set.memory_mib or 0) / MIB_PER_GIB
    match pod_set.demand:
        case Whole(gpus):
            return Ask(1000 * gpus, cpu, memory)
        case Share(milli):
            return Ask(milli, cpu, memory, is_share=True)
        case _:
            return None


def mix_of(pod_sets: Iterable[PodSet]) -> Mix:
    """The mix of these pod sets, pod by pod; the prior while they are too few to tell."""
    same: dict[tuple[object, ...], tuple[PodSet, float]] = {}
    for pod_set in pod_sets:
        key = pod_set.demand, pod_set.cpu, pod_set.memory_mib
        same[key] = pod_set, same[key][1] + pod_set.count if key in same else pod_set.count
    counts: dict[Ask, float] = {}
    for pod_set, count in same.values():
        if ask := ask_of(pod_set):
            counts[ask] = counts.get(ask, 0.0) + count
    if sum(counts.values()) < FEWEST or not any(ask.milli for ask in counts):
        return PRIOR
    return Mix(tuple(sorted(counts.items())))
