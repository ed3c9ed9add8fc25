"""What every kind of cluster can do. Each effect may be repeated: already there is adopted, already gone is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from gpufleet.clusters.handed import Admission, Handed
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.model.hardware import MigInstance, Node
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import Queue, Team
from gpufleet.model.workload import Container, Kind

SCHEDULER: Final = "gpufleet.io/scheduler"
"""Label of a node: whose it is. Absent = ours."""
OURS: Final = "gpufleet"


class Phase(StrEnum):
    """Life of one pod. `lost` = its node went away under it."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        return self not in (Phase.PENDING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One pod to start: where, and what it may use. `need_mib` is the GPU memory it asked for (0 = whole devices)."""

    name: str
    rank: int
    place: PodPlace
    container: Container
    need_mib: int = 0


@dataclass(frozen=True, slots=True)
class GangSpec:
    """One attempt of one job: all its pods start together or none does.

    The cluster adds to each pod's environment what only it can know: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
    GPUFLEET_RENDEZVOUS_TOKEN, GPUFLEET_CONTROL_FILE.
    """

    job: str
    attempt: int
    team: str
    namespace: str
    pods: tuple[PodSpec, ...]
    grace: timedelta
    """Between the request to stop (SIGTERM) and SIGKILL."""
    kind: Kind = Kind.TRAINING


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod as the cluster reports it. `bound_at`, `finished_at` are by the cluster's own clock: use is metered by it."""

    name: str
    job: str
    attempt: int
    rank: int
    node: str
    phase: Phase
    devices: tuple[int, ...] = ()
    exit_code: int | None = None
    reason: str = ""
    """Why it ended: `evicted`, `node-lost`, `memory` (of the GPU), `host-memory`, `start`. Of a pending one: what it
    waits for, in the cluster's own words."""
    bound_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    address: str = ""
    """host:port it serves on, for replicas."""
    peak_memory_mib: int | None = None
    """The most memory its worst GPU held for it so far, CUDA context included; None where nobody measures it."""
    busy: float | None = None
    """The part of the last minutes in which its GPUs worked, 0 to 1; None where nobody measures it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """All of a cluster at one instant. `at` is the observer's clock, `cluster_time` the cluster's own."""

    cluster: str
    at: datetime
    cluster_time: datetime
    levels: tuple[str, ...]
    nodes: tuple[Node, ...]
    pods: tuple[PodSeen, ...]
    notices: tuple[InterruptionNotice, ...] = ()
    admissions: Mapping[tuple[str, int], Admission] = field(default_factory=dict)
    """By (job, attempt), what other schedulers say of what was handed to them."""


class Cluster(Protocol):
    """A world where pods run."""

    name: str
    has_fences: bool
    """Whether `fence` does anything here."""

    def observe(self) -> Observation:
        """Everything with our fleet's id. Raises Temporary when the world does not answer."""
        ...

    def launch(self, gang: GangSpec) -> None:
        """Start the gang, all or nothing; a gang of that job and attempt that is there already is adopted.

        Raises Refused when the world's referee says no (nothing was started), Temporary when it did not answer
        (something may have been: ask again), Permanent when it can never start.
        """
        ...

    def hand_over(self, handed: Handed) -> None:
        """Give the job to the scheduler its queue belongs to, which decides when and where it runs.

        As with `launch`: all or nothing, what is there is adopted, the same errors. A kind of cluster that has no other
        scheduler raises Permanent.
        """
        ...

    def stop(self, job: str, attempt: int, *, grace: timedelta) -> None:
        """SIGTERM now (the process saves and leaves), SIGKILL after `grace`. An attempt that is gone is done."""
        ...

    def remove(self, job: str, attempt: int) -> None:
        """Forget the ended pods of an attempt (their logs stay). Nothing to forget is done."""
        ...

    def request_save(self, job: str, attempt: int, number: int) -> None:
        """Ask the running attempt for a checkpoint; a higher `number` is a new request, the same one is the same."""
        ...

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        """Remake free MIG instances of one GPU; done already is done. Raises Refused when one is in use or illegal."""
        ...

    def cordon(self, node: str, *, on: bool) -> None:
        """Let nothing new start on the node, or let it again."""
        ...

    def fence(self, teams: Iterable[Team], queues: Iterable[Queue]) -> None:
        """Bound each team's room on this cluster by what its queue may hold at most: a second fence behind the pass."""
        ...

    def logs(self, job: str, attempt: int, rank: int, *, tail: int = 200) -> str:
        """The last lines a pod wrote; empty when there are none. Raises NotFound for a pod never seen."""
        ...
