"""The frozen input of one scheduling pass."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpufleet.model.hardware import MigInstance, Node
from gpufleet.model.tenancy import Queue
from gpufleet.model.workload import Job


@dataclass(frozen=True, slots=True)
class SliceOn:
    """A MIG slice a pod holds or gets."""

    gpu: int
    instance: MigInstance


@dataclass(frozen=True, slots=True)
class ShareOn:
    """A share of one GPU a pod holds or gets."""

    gpu: int
    milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where one pod is, or shall be: exactly one of `gpus`, `slices`, `shares` is filled."""

    pod_set: int
    rank: int
    node: str
    gpus: tuple[int, ...] = ()
    slices: tuple[SliceOn, ...] = ()
    shares: tuple[ShareOn, ...] = ()
    cpu: float | None = None
    memory_mib: int | None = None

    @property
    def devices(self) -> tuple[int, ...]:
        if len(self.slices) + len(self.shares) + len(self.gpus) == 1:  # most places
            return self.gpus or ((self.slices or self.shares)[0].gpu,)
        return tuple(sorted({*self.gpus, *(s.gpu for s in self.slices), *(s.gpu for s in self.shares)}))


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds places now; `leaving` = its stop is already decided, its places come free by themselves."""

    job: Job
    places: tuple[PodPlace, ...]
    started_at: datetime
    last_checkpoint_at: datetime | None = None
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that waits. `not_on` names nodes it backs off from after a failed start there."""

    job: Job
    not_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All a pass may know. `levels` names the topology above the node, broad to narrow."""

    at: datetime
    levels: tuple[str, ...]
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    running: tuple[Running, ...] = ()
    pending: tuple[Pending, ...] = ()
    revision: int = 0
