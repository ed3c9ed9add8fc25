"""The published placement rules of FGD's experiments, as scores of 0 to 100 over all nodes (USENIX ATC'23).

Definitions: docs/benchmarks.md, section 3. Whole GPUs are always fully idle ones, the lowest index first; a share
goes to the tightest GPU that holds it, which for whole GPUs comes to the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from gpufleet.simulation.openb.cluster import ABSENT, Bools, Cluster, Ints
from gpufleet.simulation.openb.dice import Dice
from gpufleet.simulation.openb.trace import CARD, Request

MOST_CPU, MOST_GPU = 128_000, 8 * CARD
"""What the published scores divide by: the largest node."""
TOP: Final = 100


class Rule(ABC):
    """One published rule."""

    name: str
    definition: str

    @abstractmethod
    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        """How good every node is, larger is better; infeasible ones are masked by the caller."""

    def gpus(self, cluster: Cluster, request: Request, node: int) -> list[int]:
        return cluster.tightest(node, request)


class DotProduct(Rule):
    name = "dotprod"
    definition = "floor(100 (1 - (c pc / 128^2 + R pg / 8^2) / 2)), c and R free cores and GPUs, pc and pg asked"

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        cpu = cluster.cpu / MOST_CPU * (request.cpu_milli / MOST_CPU)
        gpu = cluster.free / MOST_GPU * (request.total / MOST_GPU)
        return np.floor(TOP * (1 - (cpu + gpu) / 2)).astype(np.int64)


class BestFit(Rule):
    name = "bestfit"
    definition = "floor(100 (1 - (c - pc) / 256 - (R - pg) / 16)), stretched to 0..100 over the feasible nodes"

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        cpu = 0.5 * (cluster.cpu - request.cpu_milli) / MOST_CPU
        gpu = 0.5 * (cluster.free - request.total) / MOST_GPU
        raw = np.floor(TOP * (1 - cpu - gpu)).astype(np.int64)
        least, most = int(raw[fits].min()), int(raw[fits].max())
        if most == least:
            return np.zeros_like(raw)
        stretched: Ints = (raw - least) * TOP // (most - least)
        return stretched


class GpuPacking(Rule):
    name = "gpupacking"
    definition = "GPUs in use before idle GPUs of a used node before idle nodes, the tightest first"

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        if not request.gpus:
            return np.zeros(len(cluster.cpu), dtype=np.int64)
        gpus = cluster.gpus
        idle = (gpus == CARD).sum(1)
        ordered = np.sort(np.where(gpus >= request.milli, gpus, 2 * CARD), axis=1)[:, : request.gpus]
        opened = (ordered == CARD).sum(1)
        left = ordered.sum(1) * TOP // CARD
        used = np.where(opened > 0, np.maximum(50 - opened, 33), np.maximum(TOP - left // 10, 50))
        found: Ints = np.where(idle == cluster.count, np.maximum(33 - idle, idle), used)
        return found


class GpuClustering(Rule):
    name = "gpuclustering"
    definition = (
        "pods of one kind (shares; k whole GPUs) together: 75 only that kind, 50 among others, 25 an empty node"
    )

    def __init__(self, nodes: int) -> None:
        self._kinds: list[set[int]] = [set() for _ in range(nodes)]
        self._has: dict[int, Ints] = {}
        self._number: Ints = np.zeros(nodes, dtype=np.int64)
        self._seen = 0

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        if not request.gpus:
            return np.zeros(len(cluster.cpu), dtype=np.int64)
        self._follow(cluster)
        base = 25 * (MOST_GPU - cluster.free) // MOST_GPU
        has = self._has.setdefault(_kind(request), np.zeros_like(self._number))
        bonus = np.where(has > 0, np.where(self._number == 1, 75, 50), np.where(self._number == 0, 25, 0))
        found: Ints = base + bonus
        return found

    def _follow(self, cluster: Cluster) -> None:
        """Which kinds stand where, by now."""
        for node, request in cluster.given[self._seen :]:
            if request.gpus and _kind(request) not in self._kinds[node]:
                self._kinds[node].add(_kind(request))
                self._has.setdefault(_kind(request), np.zeros_like(self._number))[node] = 1
                self._number[node] += 1
        self._seen = len(cluster.given)


def _kind(request: Request) -> int:
    """0 for a share, else how many whole GPUs."""
    return 0 if request.gpus == 1 and request.milli < CARD else request.gpus


class Chance(Rule):
    name = "random"
    definition = "a feasible node, and of it feasible GPUs, with equal chance"

    def __init__(self, random: Dice) -> None:
        self._random = random

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        scores = np.zeros(len(cluster.cpu), dtype=np.int64)
        scores[self._random.choice(np.flatnonzero(fits).tolist())] = 1
        return scores

    def gpus(self, cluster: Cluster, request: Request, node: int) -> list[int]:
        left = cluster.gpus[node]
        fitting = [i for i in range(len(left)) if left[i] >= max(request.milli, ABSENT + 1)]
        return sorted(self._random.sample(fitting, request.gpus))
