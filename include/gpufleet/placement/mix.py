"""The recent demand: which kinds of pods are asked for, and how often. What comes next is guessed from it.

Shares and whole GPUs only: slices are weighed on their own grid (`geometry.Room`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpufleet.model.hardware import Node
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


WHOLE_HOSTS: Final = 0.1
"""Of the mix: pods that take a whole node. Of the trials 0.02 was too little on one seed of four, 0.1 on none of ten."""


def expecting(mix: Mix, nodes: Iterable[Node]) -> Mix:
    """The mix, and pods that take a whole node of the largest: as many for every size of host there is.

    Where hosts differ the largest are few, and before somebody has asked for one nothing else would keep them: on openb
    multigpu50 they were full of small pods at half load, and 8 GPUs with 120 cores had no place any more.
    """
    stated = [n for n in nodes if n.cpu is not None and n.memory_mib is not None]
    most = max((len(n.devices) for n in stated), default=0)
    hosts = sorted({(n.cpu or 0.0, n.memory_mib or 0) for n in stated if len(n.devices) == most})
    if not most or len(hosts) < 2:
        return mix
    counts = dict(mix.counts)
    for cpu, memory in hosts:
        ask = Ask(1000 * most, cpu, memory / MIB_PER_GIB)
        counts[ask] = counts.get(ask, 0.0) + WHOLE_HOSTS * mix.total / len(hosts)
    return Mix(tuple(sorted(counts.items())))
