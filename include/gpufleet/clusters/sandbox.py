"""The sandbox as a Cluster: a thin client, every rule is on the other side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from gpufleet.clusters.base import GangSpec, Observation, PodSeen
from gpufleet.clusters.handed import Handed
from gpufleet.errors import Permanent
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import MigInstance, Node
from gpufleet.model.tenancy import Queue, Team
from gpufleet.sandbox.client import Connection

Fact = TypeVar("Fact")

_GANG: Final = TypeAdapter(GangSpec)
_NODE: Final = TypeAdapter(Node)
_POD: Final = TypeAdapter(PodSeen)
_NOTICE: Final = TypeAdapter(InterruptionNotice)


class SandboxCluster:
    """Speaks to the sandbox whose door file lies in `home`."""

    def __init__(self, home: Path, name: str = "sandbox") -> None:
        self.name, self.has_fences = name, False
        self._connection = Connection(home)

    def observe(self) -> Observation:
        raw = self._connection.get("/v1/observation")
        return Observation(
            cluster=self.name,
            at=_instant(raw["at"]),
            cluster_time=_instant(raw["cluster_time"]),
            levels=tuple(raw["levels"]),
            nodes=tuple(_node(node, self.name) for node in raw["nodes"]),
            pods=tuple(_fact(_POD, pod, "bound_at", "started_at", "finished_at") for pod in raw["pods"]),
            notices=tuple(_fact(_NOTICE, notice, "at", "deadline") for notice in raw["notices"]),
        )

    def launch(self, gang: GangSpec) -> None:
        self._connection.post("/v1/gangs", _GANG.dump_json(gang))

    def hand_over(self, handed: Handed) -> None:
        raise Permanent(f"The sandbox has no other scheduler: queue {handed.job.queue} cannot be handed to one.")

    def stop(self, job: str, attempt: int, *, grace: timedelta) -> None:
        self._do("/v1/gangs/stop", job=job, attempt=attempt, grace=grace.total_seconds())

    def remove(self, job: str, attempt: int) -> None:
        self._do("/v1/gangs/remove", job=job, attempt=attempt)

    def request_save(self, job: str, attempt: int, number: int) -> None:
        self._do("/v1/gangs/save", job=job, attempt=attempt, number=number)

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        self._do("/v1/nodes/repartition", node=node, gpu=gpu, destroy=_raw(destroy), create=_raw(create))

    def cordon(self, node: str, *, on: bool) -> None:
        self._do("/v1/nodes/cordon", node=node, on=on)

    def fence(self, teams: Iterable[Team], queues: Iterable[Queue]) -> None:
        """Its referee knows devices, not teams."""

    def logs(self, job: str, attempt: int, rank: int, *, tail: int = 200) -> str:
        text: str = self._connection.get("/v1/logs", job=job, attempt=attempt, rank=rank, tail=tail)["text"]
        return text

    def _do(self, path: str, **body: object) -> None:
        self._connection.post(path, json.dumps(body).encode())


def _fact(codec: TypeAdapter[Fact], raw: Mapping[str, Any], *instants: str) -> Fact:
    return codec.validate_python({**raw, **{name: raw[name] and _instant(raw[name]) for name in instants}})


def _node(raw: Mapping[str, Any], cluster: str) -> Node:
    return _NODE.validate_python({**raw, "model": gpu_model(raw["model"]), "cluster": cluster})


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _raw(instances: tuple[MigInstance, ...]) -> list[dict[str, object]]:
    return [{"start": instance.start, "profile": instance.profile} for instance in instances]
