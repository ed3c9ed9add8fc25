"""Fragmentation gradient descent, exactly as published, kept up to date node by node.

F(node) is the free GPU that the typical next pod cannot use; a pod goes where F grows least (USENIX ATC'23; definition,
rounding and order of summation: docs/benchmarks.md, section 3). Sums run bucket by bucket in the order of
the original program, for a different order flips some of the rounded scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpufleet.simulation.openb.cluster import Bools, Cluster, Ints
from gpufleet.simulation.openb.rules import TOP, Rule
from gpufleet.simulation.openb.trace import CARD, Request

TYPICAL = 0.95
"""Typical pods: the most frequent kinds until so much of all pods is covered."""
SCALE = 1000.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Typical:
    """Kinds of pods with their shares, most frequent first."""

    cpu: Ints
    milli: Ints
    gpus: Ints
    share: Floats
    models: tuple[tuple[str, ...], ...]


def typical(requests: Sequence[Request]) -> Typical:
    """The kinds that make up 95 % of the pods; memory is not looked at."""
    counts = Counter((r.cpu_milli, r.milli, r.gpus, r.models) for r in requests)
    ordered = sorted(counts.items(), key=lambda kc: (-kc[1], -kc[0][0], -kc[0][1], -kc[0][2], kc[0][3]))
    kept, covered = [], 0
    for kind, count in ordered:
        kept.append((kind, count))
        covered += count
        if covered >= TYPICAL * len(requests):
            break
    total, part = len(requests), covered / len(requests)
    cpu, milli, gpus, models = zip(*(kind for kind, _ in kept), strict=True)
    share = [count / total / part for _, count in kept]
    return Typical(np.array(cpu), np.array(milli), np.array(gpus), np.array(share), models)


class Fgd(Rule):
    name = "fgd"
    definition = "floor(100 sigmoid((F - F after) / 1000)), F over the typical pods that make up 95 % of the list"

    def __init__(self, cluster: Cluster, requests: Sequence[Request]) -> None:
        self._kinds = typical(requests)
        self._served = np.array([[not k or m in k for k in self._kinds.models] for m in cluster.models])
        self._fragment = self._of(cluster.cpu, cluster.gpus, np.arange(len(cluster.cpu)))
        self._seen = 0
        self._known: dict[tuple[int, int, int], tuple[int, Ints, Ints]] = {}
        """By kind of pod: changes seen, score and chosen GPU of every node."""

    def score(self, cluster: Cluster, request: Request, fits: Bools) -> Ints:
        self._follow(cluster)
        key = request.cpu_milli, request.milli, request.gpus
        nodes = len(cluster.cpu)
        seen, scores, gpus = self._known.get(key, (-1, np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)))
        stale = np.arange(nodes) if seen < 0 else cluster.changed(seen)
        if len(stale):
            scores[stale], gpus[stale] = self._rate(cluster, request, stale)
        self._known[key] = len(cluster.given), scores, gpus
        return scores

    def gpus(self, cluster: Cluster, request: Request, node: int) -> list[int]:
        if request.gpus == 1 and request.milli < CARD:
            return [int(self._known[request.cpu_milli, request.milli, request.gpus][2][node])]
        return cluster.tightest(node, request)

    def _follow(self, cluster: Cluster) -> None:
        rows = cluster.changed(self._seen)
        if len(rows):
            self._fragment[rows] = self._of(cluster.cpu[rows], cluster.gpus[rows], rows)
            self._seen = len(cluster.given)

    def _rate(self, cluster: Cluster, request: Request, rows: Ints) -> tuple[Ints, Ints]:
        """Score and GPU: for a share the first GPU with the best score, whole GPUs are the idle ones in order."""
        cpu, gpus = cluster.cpu[rows] - request.cpu_milli, cluster.gpus[rows]
        if request.gpus == 1 and request.milli < CARD:
            scores = np.full(gpus.shape, -1, dtype=np.int64)
            for gpu in range(gpus.shape[1]):
                some = np.flatnonzero(gpus[:, gpu] >= request.milli)
                after = gpus[some].copy()
                after[:, gpu] -= request.milli
                scores[some, gpu] = self._rounded(cpu[some], after, rows[some])
            best = scores.argmax(1)
            return scores[np.arange(len(rows)), best], best
        idle = gpus == CARD
        after = np.where(idle & (idle.cumsum(1) <= request.gpus), 0, gpus)
        return self._rounded(cpu, after, rows), np.zeros(len(rows), dtype=np.int64)

    def _rounded(self, cpu: Ints, gpus: Ints, rows: Ints) -> Ints:
        gain = self._fragment[rows] - self._of(cpu, gpus, rows)
        return np.floor(TOP / (1 + np.exp(-gain / SCALE))).astype(np.int64)

    def _of(self, cpu: Ints, gpus: Ints, rows: Ints) -> Floats:
        """F of nodes in these states, in thousandths of a GPU."""
        kinds = self._kinds
        has = np.maximum(gpus, 0)
        free = has.sum(1)[:, None]
        enough = (gpus[:, None, :] >= kinds.milli[:, None]).sum(2) >= kinds.gpus
        small = np.where(gpus[:, None, :] < kinds.milli[:, None], has[:, None, :], 0).sum(2)
        hosted = cpu[:, None] >= kinds.cpu
        asks, served = kinds.gpus > 0, self._served[rows]
        buckets = (
            (asks & served & ~enough & ~hosted, free),
            (asks & served & hosted, np.where(enough, small, free)),
            (asks & served & enough & ~hosted, free),
            (~asks & hosted, free),
            (~asks & ~hosted, free),
            (asks & ~served, free),
        )
        found = np.zeros(len(cpu))
        for mask, lost in buckets:
            found = found + np.where(mask, kinds.share * lost, 0.0).cumsum(1)[:, -1]
        return found
