"""Our own engine behind a replay: the very ledger, pools and worths that a scheduling pass uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from gpufleet.model.hardware import Device, GpuModel, Link, Node
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Job, Kind, PodSet, Share, Whole
from gpufleet.placement import Ledger, Topology
from gpufleet.placement.demand import take
from gpufleet.placement.mix import FEWEST, PRIOR, Mix, expecting, mix_of
from gpufleet.placement.pool import pool_of
from gpufleet.placement.potential import FRAGMENT_KNOWN, Potential
from gpufleet.placement.worth import pick
from gpufleet.simulation.openb.trace import CARD, Machine, Request

# The trace says nothing of GPU memory: one model for all, large enough for every share.
GPU: Final = GpuModel("openb", 1_000_000, (8, 0), 8, 7, Link.NVSWITCH)
JOB: Final = Job("pod", "", "", "", Kind.TRAINING, (), datetime(2023, 1, 1, tzinfo=UTC))


class Engine:
    """Places pods one by one. `known` is the mix to come; without it the mix is learnt from the arrivals.

    Learnt tables are made anew whenever the pods seen have doubled.
    """

    def __init__(self, machines: Sequence[Machine], known: Iterable[Request] | None) -> None:
        nodes = [
            Node(m.name, GPU, tuple(map(Device, range(m.gpus))), cpu=m.cpu_milli / 1000, memory_mib=m.memory_mib)
            for m in machines
        ]
        self._seen: list[PodSet] | None = [] if known is None else None
        self._next = FEWEST
        self._nodes = nodes
        told = Potential(mix_of(map(pod_set, known)), FRAGMENT_KNOWN) if known is not None else self._potential(PRIOR)
        self.ledger = Ledger(nodes, potential=told)
        self.topology = Topology((), nodes)
        self._models = {m.name: m.model for m in machines}
        self._names: dict[tuple[str, ...], list[str]] = {}
        self._alone: dict[str, list[str]] = {}

    def place(self, request: Request) -> PodPlace | None:
        """Give the pod a place if any node has one."""
        pod = pod_set(request)
        if self._seen is not None:
            self._learn(pod)
        pool = pool_of(self.ledger, self.topology, self.fitting(request.models))
        best = pick(pool, pod, JOB)
        if best is None:
            return None
        return take(self.ledger, self.ledger.books[best.node], pod, 0, JOB.id, best.gpu)

    def alone(self, node: str) -> list[str]:
        """The list of that node only; always the same list."""
        return self._alone.setdefault(node, [node])

    def fitting(self, models: tuple[str, ...]) -> list[str]:
        """Nodes of these models, all when none is named; always the same list."""
        if models not in self._names:
            self._names[models] = [n for n, model in self._models.items() if not models or model in models]
        return self._names[models]

    def _learn(self, pod: PodSet) -> None:
        assert self._seen is not None
        self._seen.append(pod)
        if len(self._seen) >= self._next:
            self._next *= 2
            self.use(mix_of(self._seen))

    def use(self, mix: Mix) -> None:
        """Judge by this mix from now on."""
        self.ledger.potential = self._potential(mix)
        self.ledger.pools.clear()

    def _potential(self, mix: Mix) -> Potential:
        return Potential(expecting(mix, self._nodes))


@lru_cache(maxsize=4096)
def pod_set(request: Request) -> PodSet:
    """The pod as the engine asks for it; a trace asks the same again and again."""
    share = request.gpus == 1 and request.milli < CARD
    demand = Share(request.milli, 0) if share else Whole(request.gpus)
    return PodSet(1, demand, request.cpu_milli / 1000, request.memory_mib)
