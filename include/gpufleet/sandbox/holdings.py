"""Who holds what: worked out from the pods that are not over, never kept apart from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpufleet.model.hardware import MigInstance
from gpufleet.sandbox.records import Gang, Machine, PodAsk


@dataclass(frozen=True, slots=True)
class Hold:
    """One pod's hold on one GPU: a slice, a share (in thousandths), or neither = the whole card."""

    job: str
    instance: MigInstance | None = None
    milli: int = 0
    memory_mib: int = 0

    @property
    def is_whole(self) -> bool:
        return self.instance is None and not self.milli

    @property
    def is_share(self) -> bool:
        return self.milli > 0


@dataclass(slots=True)
class Holdings:
    """By (node, GPU) the holds on it; by node what its pods use of the host."""

    gpus: dict[tuple[str, int], list[Hold]] = field(default_factory=lambda: defaultdict(list))
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    memory_mib: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def of(cls, gangs: Iterable[Gang]) -> Holdings:
        held = cls()
        for gang in gangs:
            for pod in gang.pods:
                if not pod.is_over:
                    held.add(gang.ask.job, pod.ask)
        return held

    def add(self, job: str, pod: PodAsk) -> None:
        node = pod.place.node
        for gpu, hold in holds(job, pod):
            self.gpus[node, gpu].append(hold)
        self.cpu[node] += pod.place.cpu or 0.0
        self.memory_mib[node] += pod.place.memory_mib or 0

    def on(self, node: str, gpu: int) -> list[Hold]:
        return self.gpus.get((node, gpu), [])

    def on_node(self, node: str) -> list[Hold]:
        return [hold for (name, _), found in self.gpus.items() if name == node for hold in found]


def holds(job: str, pod: PodAsk) -> Iterator[tuple[int, Hold]]:
    for gpu in pod.place.gpus:
        yield gpu, Hold(job)
    for gpu, instance in pod.instances:
        yield gpu, Hold(job, instance=instance)
    for share in pod.place.shares:
        yield share.gpu, Hold(job, milli=share.milli, memory_mib=share.memory_mib)


def memory_limit_mib(machine: Machine, pod: PodAsk) -> int:
    """GPU memory a pod may use in all: what its cards, slices (as the device reports them) and shares have."""
    profiles = (machine.gpu.profile(instance.profile) for _, instance in pod.instances)
    return (
        len(pod.place.gpus) * machine.gpu.memory_mib
        + sum(profile.memory_mib for profile in profiles if profile is not None)
        + sum(share.memory_mib for share in pod.place.shares)
    )
