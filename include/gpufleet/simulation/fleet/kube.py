"""Kubernetes without a gang scheduler: one pod at a time, whole GPUs, and GPUs never enter the score.

NodeResourcesFit LeastAllocated and BalancedAllocation over cpu and memory, which pods ask in proportion to their GPUs: so
the node with most free GPUs wins, ties at random (`binpack`: MostAllocated, the least). Pods that do not fit are passed by
later ones. A placed pod holds its GPUs; the job runs when all its pods are placed (defaults up to v1.36, no PodGroup).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpufleet.simulation.fleet.workload import Random, Work
from gpufleet.simulation.fleet.world import World


@dataclass(slots=True)
class Pod:
    """One pod of a job, waiting or placed."""

    job: str
    gpus: int
    replica: bool
    node: int | None = None


@dataclass(slots=True)
class Gang:
    """A job's pods, and since when it holds some but not all."""

    work: Work
    pods: list[Pod]
    partial_since: float | None = None
    released: int = 0

    @property
    def is_whole(self) -> bool:
        return all(p.node is not None for p in self.pods)


@dataclass(slots=True)
class KubeDefault:
    """`pack`: MostAllocated instead of LeastAllocated."""

    world: World
    random: Random
    pack: bool = False
    _free: list[int] = field(default_factory=list)
    _gangs: dict[str, Gang] = field(default_factory=dict)
    _queue: list[Pod] = field(default_factory=list)

    def __post_init__(self) -> None:
        fleet = self.world.spec.fleet
        self._free = [fleet.gpus] * fleet.nodes

    def arrived(self, work: Work, now: float) -> None:
        """A pod for every `pod` GPUs; a replica gets a whole GPU."""
        most = self.world.spec.training.pod
        sizes = [1] if work.is_replica else [most] * (work.gpus // most) + [work.gpus % most] * (work.gpus % most > 0)
        gang = Gang(work, [Pod(work.name, size, work.is_replica) for size in sizes])
        self._gangs[work.name] = gang
        self._queue += gang.pods

    def ended(self, work: Work, now: float) -> None:
        for pod in self._gangs.pop(work.name).pods:
            self._give_back(pod)

    def noticed(self, node: int, now: float) -> None:
        """Nobody listens: new pods may still go there."""

    def lost(self, node: int, works: Sequence[Work], now: float) -> None:
        """Its pods wait again, at the end of the line; the others of their gangs keep what they hold."""
        for gang in self._gangs.values():
            gone = [p for p in gang.pods if p.node == node]
            for pod in gone:
                pod.node = None
            self._queue += gone
            if gone and any(p.node is not None for p in gang.pods):
                self._is_partial(gang, now)
        self._free[node] = 0

    def back(self, node: int, now: float) -> None:
        self._free[node] = self.world.spec.fleet.gpus

    def decide(self, now: float) -> None:
        """Every waiting pod once: services first where they have priority, then as they came."""
        self._release(now)
        if self.world.spec.serving.first:
            self._queue.sort(key=lambda p: not p.replica)
        left, most = [], max(self._free)
        for pod in self._queue:
            if pod.gpus > most:
                left.append(pod)
                continue
            pod.node = node = self._node_for(pod)
            self._free[node] -= pod.gpus
            most = max(self._free)
            self._placed(self._gangs[pod.job], now)
        self._queue = left
        partial = (g for g in self._gangs.values() if g.partial_since is not None)
        self.world.counts.held = sum(p.gpus for g in partial for p in g.pods if p.node is not None)

    def _node_for(self, pod: Pod) -> int:
        """The node for a pod that fits somewhere."""
        fitting = [free for free in self._free if free >= pod.gpus]
        best = min(fitting) if self.pack else max(fitting)
        ties = [n for n, free in enumerate(self._free) if free == best]
        return ties[self.random.randrange(len(ties))]

    def _placed(self, gang: Gang, now: float) -> None:
        if gang.is_whole:
            gang.partial_since = None
            cards = (gang.work.name,) if gang.work.is_replica else ()
            self.world.start(gang.work.name, [p.node for p in gang.pods if p.node is not None], cards=cards)
        else:
            self._is_partial(gang, now)

    def _is_partial(self, gang: Gang, now: float) -> None:
        if gang.partial_since is None:
            gang.partial_since = now
            if self.world.spec.release is not None:
                self.world.wake(now + self.world.spec.release)

    def _release(self, now: float) -> None:
        """Gangs that have been partial for too long give all back and go to the end of the line."""
        limit = self.world.spec.release
        if limit is None:
            return
        for gang in self._gangs.values():
            if gang.partial_since is not None and now - gang.partial_since >= limit - 1e-6:
                placed = [p for p in gang.pods if p.node is not None]
                for pod in placed:
                    self._give_back(pod)
                gang.partial_since = None
                gang.released += 1
                mine = {id(p) for p in gang.pods}
                self._queue = [p for p in self._queue if id(p) not in mine] + gang.pods

    def _give_back(self, pod: Pod) -> None:
        if pod.node is not None:
            self._free[pod.node] += pod.gpus
            pod.node = None
