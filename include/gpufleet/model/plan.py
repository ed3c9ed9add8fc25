"""The frozen output of one scheduling pass: what to do, and a reason for everything that waits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import MigInstance, MigRemake
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import PodSet, TopologyWish


class Reason(StrEnum):
    """Why a job waits; metrics group by it. `too-large` and `no-such-model` can never fit this fleet."""

    NO_SUCH_MODEL = "no-such-model"
    TOO_LARGE = "too-large"
    OVER_LIMIT = "over-limit"
    OVER_QUOTA_NON_PREEMPTIBLE = "over-quota-non-preemptible"
    NOT_ENOUGH = "not-enough"
    FRAGMENTED = "fragmented"
    TOPOLOGY = "topology"
    MEMORY = "memory"
    UNHEALTHY = "unhealthy"
    CAPACITY_TYPE = "capacity-type"
    HOST_RESOURCES = "host-resources"
    SHARING = "sharing"
    BEHIND = "behind"


@dataclass(frozen=True, slots=True)
class Fit:
    """It fits."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """It does not fit, and this is what to tell the team that asked."""

    reason: Reason
    detail: str


Verdict = Fit | Unfit


@dataclass(frozen=True, slots=True)
class Placement:
    """A job starts here; `after` names running jobs whose leaving it waits for."""

    job: str
    pods: tuple[PodPlace, ...]
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running job gives back places for another: all of them (`ranks` None) or these ranks. `why` = reclaim | preempt."""

    job: str
    for_job: str
    why: str
    lost_gpu_hours: Fraction
    ranks: tuple[int, ...] | None = None
    checkpoint_first: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """A running pod goes elsewhere so that `for_job` fits."""

    job: str
    for_job: str
    places: tuple[PodPlace, ...]
    sources: tuple[str, ...]
    lost_gpu_hours: Fraction


@dataclass(frozen=True, slots=True)
class Repartition:
    """MIG instances of one GPU to destroy (free ones only) and to create, the largest first as the driver wants them.

    `by` says how the node is remade: beside running work, on an empty GPU, or on an empty node. `keeps` counts the
    instances that stay as they are.
    """

    node: str
    gpu: int
    create: tuple[MigInstance, ...]
    destroy: tuple[MigInstance, ...] = ()
    by: MigRemake = MigRemake.SLICE
    keeps: int = 0

    @property
    def seconds(self) -> float:
        """About how long the GPU (by the MIG manager: every GPU of the node) cannot start anything.

        Assumed, not measured: a quarter of a second to create an instance (what MIGBench models), a second to destroy
        one (the order of magnitude that dra-driver-nvidia-gpu states), two minutes for the MIG manager, which stops
        the device plugin and waits for it.
        """
        return len(self.create) * 0.25 + len(self.destroy) * 1.0 if self.by is MigRemake.SLICE else 120.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that stays pending. Positions count from 1; `unblock` is the cheapest thing that would place it."""

    job: str
    position: int
    queue_position: int
    reason: Reason
    detail: str
    unblock: str = ""


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """Capacity that would place a waiting job."""

    for_job: str
    pods: tuple[PodSet, ...]
    models: tuple[str, ...] = ()
    topology: TopologyWish = TopologyWish()
    capacity: tuple[CapacityType, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it, sorted, so the same snapshot gives the same plan byte for byte."""

    placements: tuple[Placement, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    moves: tuple[Move, ...] = ()
    repartitions: tuple[Repartition, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    capacity_requests: tuple[CapacityRequest, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to do (jobs may still wait)."""
        return not (self.placements or self.evictions or self.moves or self.repartitions)
