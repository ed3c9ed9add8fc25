"""What teams ask for: jobs, pod sets, demands."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from gpufleet.model.capacity import CapacityType


class Kind(StrEnum):
    """training includes batch inference; inference is a production service that never ends by itself."""

    TRAINING = "training"
    INFERENCE = "inference"
    INTERACTIVE = "interactive"


@dataclass(frozen=True, slots=True)
class Whole:
    """So many whole GPUs for one pod."""

    gpus: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG slice: by what it must hold (`memory_mib`, `compute`), or by its profile's name."""

    memory_mib: int = 0
    compute: int = 1
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A fraction of one GPU without isolation, in thousandths, and its memory."""

    milli: int
    memory_mib: int


Demand = Whole | Slice | Share


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """What a pod runs, as far as its GPU memory goes: runs of one name, batch and sequence peak alike.

    The name holds everything else that changes memory: model, method, precision, parallelism. `batch` is per GPU,
    `sequence` counts tokens; 1 where there is no such thing.
    """

    name: str
    batch: int = 1
    sequence: int = 1

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence

    def is_within(self, other: Workload) -> bool:
        """Whether it asks for no more than the other in either way."""
        return self.batch <= other.batch and self.sequence <= other.sequence

    def __str__(self) -> str:
        return f"'{self.name}' with batch {self.batch} x sequence {self.sequence}"


@dataclass(frozen=True, slots=True)
class PodSet:
    """`count` identical pods of one job. Host resources are per pod; None asks for nothing in particular."""

    count: int
    demand: Demand
    cpu: float | None = None
    memory_mib: int | None = None
    derived: str = ""
    """How the GPU memory asked for was worked out, where it was learned from measured runs."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a GPU must at least have, where models are not named."""

    memory_mib: int = 0
    compute_capability: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class TopologyWish:
    """Names of levels: all pods inside one domain of `required`; `preferred` gives way.

    `spread` asks for the opposite: as few pods as can be in one domain of that level, for replicas that must not go
    down together.
    """

    required: str | None = None
    preferred: str | None = None
    spread: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often to save, how long a save takes at most (the grace a stop gives), how many to keep."""

    interval: timedelta = timedelta(minutes=10)
    grace: timedelta = timedelta(seconds=30)
    keep: int = 3


@dataclass(frozen=True, slots=True)
class Container:
    """What runs in each pod: an image (where the cluster has images) and a command with its environment."""

    command: tuple[str, ...] = ()
    image: str = ""
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it was asked for. Pods are ranked over the whole job, in pod-set order.

    `min_members` is the number of pods below which it cannot run; None means all (a gang).
    """

    id: str
    team: str
    project: str
    queue: str
    kind: Kind
    pod_sets: tuple[PodSet, ...]
    submitted_at: datetime
    priority: int = 50
    preemptible: bool = True
    min_members: int | None = None
    models: tuple[str, ...] = ()
    mix_models: bool = False
    """Its pods may stand on different GPU models, where no single one has room."""
    needs: Needs = Needs()
    capacity: tuple[CapacityType, ...] = ()
    topology: TopologyWish = TopologyWish()
    runtime: timedelta | None = None
    deadline: datetime | None = None
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    container: Container = Container()
    name: str = ""
    submitted_by: str = ""
    labels: tuple[tuple[str, str], ...] = field(default=())
    workload: Workload | None = None
    """What its pods run, so that their peak memory can be learned; None where nobody said."""

    @property
    def pods(self) -> int:
        return self.pod_sets[0].count if len(self.pod_sets) == 1 else sum(s.count for s in self.pod_sets)

    @property
    def least_pods(self) -> int:
        return self.pods if self.min_members is None else self.min_members
