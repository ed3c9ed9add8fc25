"""What the published rules look at: free cores, memory and thousandths of every GPU, as arrays over the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpufleet.simulation.openb.trace import CARD, Machine, Request

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ABSENT = -1
"""Free thousandths of a GPU that the node does not have."""


class Cluster:
    """Nodes in the order of `machines`; the lowest of `ties` wins among nodes of equal score."""

    def __init__(self, machines: Sequence[Machine], ties: Sequence[int]) -> None:
        self.cpu: Ints = np.array([m.cpu_milli for m in machines], dtype=np.int64)
        self.memory: Ints = np.array([m.memory_mib for m in machines], dtype=np.int64)
        self.count: Ints = np.array([m.gpus for m in machines], dtype=np.int64)
        most = int(self.count.max())
        self.gpus: Ints = np.where(np.arange(most) < self.count[:, None], CARD, ABSENT)
        self.ties: Ints = np.array(ties, dtype=np.int64)
        self.models = [m.model for m in machines]
        self._allowed: dict[tuple[str, ...], Bools] = {}
        self.given: list[tuple[int, Request]] = []
        """Who was placed on which node, in the order in which it happened."""

    @property
    def free(self) -> Ints:
        """Free thousandths by node."""
        found: Ints = np.maximum(self.gpus, 0).sum(1)
        return found

    def allowed(self, request: Request) -> Bools:
        """Nodes of a model the pod accepts; any, for a pod without GPUs."""
        models = request.models if request.gpus else ()
        if models not in self._allowed:
            self._allowed[models] = np.array([not models or m in models for m in self.models])
        return self._allowed[models]

    def feasible(self, request: Request) -> Bools:
        """Nodes with the cores, the memory, the model and enough GPUs with enough left."""
        fits = (self.cpu >= request.cpu_milli) & (self.memory >= request.memory_mib) & self.allowed(request)
        if request.gpus:
            fits &= (self.gpus >= request.milli).sum(1) >= request.gpus
        found: Bools = fits
        return found

    def tightest(self, node: int, request: Request) -> list[int]:
        """The GPUs with the least left that suffice, the lowest index first."""
        left = self.gpus[node]
        fitting = [i for i in range(len(left)) if left[i] >= request.milli]
        return sorted(fitting, key=lambda i: (left[i], i))[: request.gpus]

    def give(self, node: int, request: Request, gpus: Sequence[int]) -> None:
        """The pod is placed."""
        self.cpu[node] -= request.cpu_milli
        self.memory[node] -= request.memory_mib
        for gpu in gpus:
            self.gpus[node, gpu] -= request.milli
        self.given.append((node, request))

    def changed(self, since: int) -> Ints:
        """Nodes that were given something after so many placements."""
        return np.array(sorted({node for node, _ in self.given[since:]}), dtype=np.int64)
