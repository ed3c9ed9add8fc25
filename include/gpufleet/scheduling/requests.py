"""What a request is, whoever asks: where it could go and what it costs. Remembered, for it never changes in a pass."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from gpufleet.model.hardware import GpuModel
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.model.workload import Job, TopologyWish
from gpufleet.placement.demand import smallest_cost
from gpufleet.placement.filters import eligible, filter_key
from gpufleet.placement.topology import natural
from gpufleet.quota.report import capacity


class Shape:
    """A kind of request, compared by identity; what is known about it is remembered with it."""

    __slots__ = ("asks", "eligible", "key", "mixed", "possible")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.eligible: dict[frozenset[Reason], dict[str, list[str]]] = {}
        self.possible: list[str] | None = None
        self.asks: tuple[tuple[str, int], ...] | None = None
        self.mixed: list[str] | None = None
        """Nodes of all models together, for a job that mixes them."""


class Requests:
    """The snapshot's fleet as requests see it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes = {n.name: n for n in sorted(snapshot.nodes, key=lambda n: natural(n.name))}
        self.running = {r.job.id: r for r in sorted(snapshot.running, key=lambda r: r.job.id) if not r.leaving}
        self._shapes: dict[str, tuple[Pending, Shape]] = {}
        self._same_shapes: dict[tuple[object, ...], Shape] = {}
        self._eligible: dict[tuple[object, ...], dict[str, list[str]]] = {}
        self._grains: dict[tuple[int, str, int], tuple[Job, int]] = {}
        self._model_of: dict[str, str] = {}

    def shape(self, pending: Pending) -> Shape:
        """Everything about a request that decides where it fits, without whose it is; one object for equal ones."""
        found = self._shapes.get(pending.job.id)
        if found is None or found[0] is not pending:
            key = _shape(pending)
            shape = self._same_shapes.get(key)
            if shape is None:
                shape = self._same_shapes[key] = Shape(key)
            found = self._shapes[pending.job.id] = pending, shape
        return found[1]

    def eligible(self, pending: Pending, ignore: frozenset[Reason] = frozenset()) -> dict[str, list[str]]:
        """Nodes that may serve the job, by model."""
        shape = self.shape(pending)
        if ignore not in shape.eligible:
            key = (filter_key(pending.job), pending.not_on, ignore)
            if key not in self._eligible:
                self._eligible[key] = eligible(pending.job, self.nodes.values(), pending.not_on, ignore)
            shape.eligible[ignore] = self._eligible[key]
        return shape.eligible[ignore]

    def grains(self, job: Job, model: str, pods: int) -> int:
        """What so many pods (by rank) cost a quota at least on a model."""
        key = (id(job), model, pods)
        if key not in self._grains:
            self._grains[key] = job, self._count_grains(job, model, pods)  # keeping the job keeps its id its own
        return self._grains[key][1]

    def _count_grains(self, job: Job, model: str, pods: int) -> int:
        found, left = 0, pods
        for pod_set in job.pod_sets:
            count = min(left, pod_set.count)
            found += count * (smallest_cost(self.gpu_models[model], pod_set.demand) or 0)
            left -= count
        return found

    @cached_property
    def gpu_models(self) -> dict[str, GpuModel]:
        return {n.model.name: n.model for n in self.nodes.values()}

    def possible(self, pending: Pending) -> list[str]:
        """Models of which the fleet has enough for the job's smallest form at all."""
        shape, job = self.shape(pending), pending.job
        if shape.possible is None:
            least = job.least_pods
            shape.possible = [m for m in self.eligible(pending) if self.grains(job, m, least) <= self.capacity[m]]
        return shape.possible

    def asks(self, pending: Pending) -> tuple[tuple[str, int], ...]:
        """(GPU model, grains of the job's smallest form there) for every model of which the fleet has enough."""
        shape, job = self.shape(pending), pending.job
        if shape.asks is None:
            shape.asks = tuple((m, self.grains(job, m, job.least_pods)) for m in self.possible(pending))
        return shape.asks

    @cached_property
    def capacity(self) -> dict[str, int]:
        """Grains by model."""
        return capacity(self.snapshot)

    def model_of(self, job: str) -> str:
        """The GPU model a running job stands on (models are never mixed in one gang); empty when its nodes are gone."""
        if job not in self._model_of:
            nodes = (self.nodes[p.node] for p in self.running[job].places if p.node in self.nodes)
            self._model_of[job] = next((n.model.name for n in nodes), "")
        return self._model_of[job]


def _shape(pending: Pending) -> tuple[object, ...]:
    job = pending.job
    return (
        job.pod_sets,
        job.least_pods,
        job.models,
        job.needs,
        job.capacity,
        job.topology,
        job.kind,
        job.mix_models,
        pending.not_on,
    )


def relaxed(job: Job) -> Job:
    """The same job without its required level."""
    return replace(job, topology=TopologyWish(None, job.topology.preferred))
