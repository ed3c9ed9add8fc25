"""What the sandbox remembers: frozen records, each kept as one JSON document.

Two clocks meet here. What a process or a machine goes through in earnest (stops, notices, launch delays) is by the
real clock; what is paid for (bound, started, finished, launched) is by the ledger's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from gpufleet.errors import Refused
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, GpuModel, Link, MigInstance, MigRemake, NodeState
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container


class PodPhase(StrEnum):
    """The same words as the Cluster contract, which lies above this package."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        return self not in (PodPhase.PENDING, PodPhase.RUNNING)


class Doom(StrEnum):
    """Why the sandbox kills a pod; the word is what the pod's `reason` will say."""

    MEMORY = "memory"
    NODE_LOST = "node-lost"
    START = "start"


EVICTED = "evicted"
"""The reason of a pod that was asked to leave before it ended."""


class Condition(StrEnum):
    """What a machine goes through. `gone` is no longer shown, kept only until its last process has ended."""

    READY = "ready"
    RECLAIMING = "reclaiming"
    LOST = "lost"
    GONE = "gone"


class InstanceState(StrEnum):
    PENDING = "pending"
    READY = "ready"
    RECLAIMING = "reclaiming"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class Machine:
    """A node. One with an `offering` is an instance of the cloud, of the same name."""

    name: str
    model: str
    devices: tuple[Device, ...]
    position: tuple[str, ...]
    capacity: CapacityType
    link: Link
    mig: MigRemake
    sharing: bool = True
    cpu: float | None = None
    memory_mib: int | None = None
    fabric: str = ""
    provider: str = "owned"
    region: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    offering: str | None = None
    cordoned: bool = False
    condition: Condition = Condition.READY
    lost_at: datetime | None = None

    @property
    def gpu(self) -> GpuModel:
        return gpu_model(self.model)

    @property
    def state(self) -> NodeState:
        if self.condition is Condition.GONE:
            return NodeState.LOST
        if self.condition is Condition.READY and self.cordoned:
            return NodeState.CORDONED
        return NodeState(self.condition.value)

    def device(self, gpu: int) -> Device:
        """Raises Refused that names the node and what it has."""
        for device in self.devices:
            if device.index == gpu:
                return device
        raise Refused(f"Node {self.name} has no GPU {gpu}; it has 0 to {len(self.devices) - 1}.")

    def with_device(self, device: Device) -> Machine:
        return replace(self, devices=tuple(device if d.index == device.index else d for d in self.devices))


@dataclass(frozen=True, slots=True)
class PodAsk:
    """One pod of a gang, as it was asked for."""

    name: str
    rank: int
    place: PodPlace
    container: Container
    need_mib: int = 0

    @property
    def instances(self) -> tuple[tuple[int, MigInstance], ...]:
        return tuple((s.gpu, s.instance) for s in self.place.slices)


@dataclass(frozen=True, slots=True)
class GangAsk:
    """One attempt of one job, as it was asked for."""

    job: str
    attempt: int
    team: str
    namespace: str
    pods: tuple[PodAsk, ...]
    grace: timedelta


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod and what became of it. Its devices are held until it is over, which is when its processes have ended."""

    ask: PodAsk
    serve_port: int
    phase: PodPhase = PodPhase.PENDING
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    leave_at: datetime | None = None
    """Real instant of the request to leave (SIGTERM)."""
    is_told: bool = False
    """Whether that SIGTERM was delivered."""
    kill_at: datetime | None = None
    """Real instant from which SIGKILL is due."""
    doom: Doom | None = None
    is_forgotten: bool = False
    peak_mib: int = 0
    """The most GPU memory it said it uses, at any look; 0 when it never said."""

    @property
    def is_over(self) -> bool:
        return self.phase.is_over


@dataclass(frozen=True, slots=True)
class Gang:
    """An attempt that was accepted. `save` is the highest checkpoint request heard."""

    ask: GangAsk
    bound_at: datetime
    master_port: int
    rendezvous_token: str = field(repr=False)
    pods: tuple[Pod, ...]
    save: int = 0

    @property
    def is_over(self) -> bool:
        return all(pod.is_over for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Removed:
    """An attempt that ended and was forgotten: the same one never starts again."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Stock:
    """Something the cloud sells, the machine it gives, and how many are left."""

    machine: Machine
    name: str
    region: str
    zone: str
    instance_type: str
    price: Fraction
    currency: str
    launch_delay: timedelta
    available: int


@dataclass(frozen=True, slots=True)
class Bought:
    """An instance. `launched_at` is by the ledger; the two others decide what happens next and are real."""

    name: str
    offering: str
    token: str
    zone: str
    capacity: CapacityType
    state: InstanceState
    launched_at: datetime
    ready_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The cloud takes a machine back at `deadline`; both instants are real."""

    id: str
    node: str
    at: datetime
    deadline: datetime


@dataclass(frozen=True, slots=True)
class LedgerRate:
    """The ledger's clock: from the real instant `real`, when it showed `ledger`, it runs `factor` times as fast."""

    real: datetime
    ledger: datetime
    factor: float

    def at(self, instant: datetime) -> datetime:
        return self.ledger + (instant - self.real) * self.factor


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of the sandbox itself, from its first start on."""

    founded_at: datetime
    rate: LedgerRate
    levels: tuple[str, ...]
    notice: timedelta
    founded: tuple[str, ...] = ()
    """Nodes of the file that were made already: one that has gone does not come back with the next start."""
    port: int = 0
    token: str = field(default="", repr=False)
