"""A cluster in memory that does at once what it is asked: for tests of what the services do, not of a world."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from gpufleet.clusters.base import GangSpec, Observation, Phase, PodSeen
from gpufleet.clusters.handed import Handed
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, MigInstance, Node
from gpufleet.model.tenancy import Queue, Team


class Obliging:
    """A cluster of whole nodes in memory where every pod runs at once."""

    name, has_fences = "main", True

    def __init__(self, nodes: int) -> None:
        model, devices = gpu_model("H100-80"), tuple(map(Device, range(8)))
        self.nodes = tuple(Node(f"n{i}", model, devices, ("z", "l"), cluster="main") for i in range(nodes))
        self.pods: dict[tuple[str, int], tuple[PodSeen, ...]] = {}
        self.phase = Phase.RUNNING
        self.fenced: list[tuple[str, ...]] = []

    def observe(self) -> Observation:
        now = datetime.now(UTC)
        return Observation(
            "main", now, now, ("zone", "leaf"), self.nodes, tuple(p for g in self.pods.values() for p in g)
        )

    def launch(self, gang: GangSpec) -> None:
        now = datetime.now(UTC)
        self.pods[gang.job, gang.attempt] = tuple(
            PodSeen(p.name, gang.job, gang.attempt, p.rank, p.place.node, self.phase, p.place.devices, bound_at=now)
            for p in gang.pods
        )

    def hand_over(self, handed: Handed) -> None:
        """Nobody hands over."""

    def stop(self, job: str, attempt: int, *, grace: timedelta) -> None:
        self.pods.pop((job, attempt), None)

    def remove(self, job: str, attempt: int) -> None:
        self.pods.pop((job, attempt), None)

    def request_save(self, job: str, attempt: int, number: int) -> None:
        """Nobody saves."""

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        """Nobody asks for slices."""

    def cordon(self, node: str, *, on: bool) -> None:
        """Nobody asks for it."""

    def fence(self, teams: Iterable[Team], queues: Iterable[Queue]) -> None:
        self.fenced.append(tuple(team.name for team in teams))

    def logs(self, job: str, attempt: int, rank: int, *, tail: int = 200) -> str:
        return ""
