"""GPUs, MIG profiles, nodes: what a place is made of.

One geometry rule serves every model: a card is a grid of `memory_slices`; a MIG profile covers `size` of them from
one of its legal `starts`; a layout is legal iff the intervals do not overlap and no profile exceeds `max_instances`
(NVIDIA MIG User Guide, supported profiles).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.units import GRAIN, GpuAmount

MOST_GPUS: Final = 64
"""GPUs of one node: four times the largest machine sold. Tables over free GPUs end here."""


class Link(StrEnum):
    """How the GPUs inside one node reach each other, fastest first."""

    NVSWITCH = "nvswitch"
    NVLINK_PAIRS = "nvlink-pairs"
    PCIE = "pcie"


class MigRemake(StrEnum):
    """What may be remade while the node serves: any free slice, only an empty GPU, only an empty node, nothing."""

    SLICE = "slice"
    EMPTY_GPU = "empty-gpu"
    EMPTY_NODE = "empty-node"
    NEVER = "never"


class NodeState(StrEnum):
    READY = "ready"
    CORDONED = "cordoned"
    RECLAIMING = "reclaiming"
    """A notice was heard: the node leaves soon, nothing new is placed on it."""
    LOST = "lost"


class Exactness(StrEnum):
    """Whether the device we choose is the device used, or only the count is ours (device plugin)."""

    DEVICE = "device"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A MIG profile of one GPU model; `memory_mib` is what the device reports, not what the name says."""

    name: str
    compute: int
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    max_instances: int
    sm: int | None = None


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU model of the catalogue; `memory_mib` is the whole card's nominal memory."""

    name: str
    memory_mib: int
    compute_capability: tuple[int, int]
    memory_slices: int
    compute_slices: int
    link: Link
    profiles: tuple[MigProfile, ...] = ()
    aliases: tuple[str, ...] = ()

    def profile(self, name: str) -> MigProfile | None:
        return next((p for p in self.profiles if p.name == name), None)

    def slice_amount(self, profile: MigProfile) -> GpuAmount:
        """What a slice costs a quota: memory slices over all memory slices."""
        return GpuAmount(GRAIN * profile.size // self.memory_slices)


@dataclass(frozen=True, slots=True, order=True)
class MigInstance:
    """A MIG instance that exists, or shall, on one GPU: `profile@start`."""

    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


def illegal_layout(model: GpuModel, instances: Iterable[MigInstance]) -> str | None:
    """Why these instances cannot exist together on one card of `model`, as a sentence, or None when they can."""
    taken: dict[int, MigInstance] = {}
    count: Counter[str] = Counter()
    for instance in instances:
        profile = model.profile(instance.profile)
        if profile is None:
            return f"{model.name} has no MIG profile {instance.profile}"
        if instance.start not in profile.starts:
            return (
                f"{instance.profile} may not start at {instance.start} on {model.name} (legal: {list(profile.starts)})"
            )
        count[profile.name] += 1
        if count[profile.name] > profile.max_instances:
            return f"{model.name} holds at most {profile.max_instances} of {profile.name}"
        for cell in range(instance.start, instance.start + profile.size):
            if cell in taken:
                return f"{instance} overlaps {taken[cell]} in memory slice {cell}"
            taken[cell] = instance
    return None


@dataclass(frozen=True, slots=True)
class Device:
    """One physical GPU of a node; `instances` are the MIG instances that exist on it, used or free."""

    index: int
    instances: tuple[MigInstance, ...] = ()
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with GPUs of one model. `position` is its path of domains, broad to narrow, above the node.

    `cpu` (cores) and `memory_mib` (host) are None where the world does not say: then they constrain nothing.
    """

    name: str
    model: GpuModel
    devices: tuple[Device, ...]
    position: tuple[str, ...] = ()
    capacity: CapacityType = CapacityType.OWNED
    state: NodeState = NodeState.READY
    link: Link = Link.NVSWITCH
    mig: MigRemake = MigRemake.SLICE
    sharing: bool = True
    exactness: Exactness = Exactness.DEVICE
    cpu: float | None = None
    memory_mib: int | None = None
    cluster: str = "main"
    fabric: str = ""
    instance: str | None = None
    """Name of the cloud instance behind the node, None for owned machines."""
    provider: str = "owned"
    region: str = ""
    labels: tuple[tuple[str, str], ...] = field(default=())

    @property
    def zone(self) -> str:
        return self.position[0] if self.position else ""
