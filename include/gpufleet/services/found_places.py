"""Which devices a pod holds that somebody else placed: those it tells of, else free ones of its node.

A device plugin picks the devices itself; for the bill and the ledger it only matters that none is counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import structlog

from gpufleet.clusters.base import PodSeen
from gpufleet.model.hardware import Device, MigInstance, Node
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Job, Share, Slice, Whole
from gpufleet.services.asked import pods_of

log = structlog.get_logger()

MILLI = 1000


class Found:
    """The devices of these nodes, and what pods hold of them; each place that is found is held from then on."""

    def __init__(self, nodes: Iterable[Node], held: Iterable[PodPlace]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._whole: set[tuple[str, int]] = set()
        self._slices: set[tuple[str, int, int]] = set()
        self._milli: dict[tuple[str, int], int] = defaultdict(int)
        for place in held:
            self._hold(place)

    def place(self, job: Job, pod: PodSeen) -> PodPlace | None:
        """None where its node is not known or shows nothing free that it could hold: then our books are wrong."""
        node = self._nodes.get(pod.node)
        place = None if node is None else self._on(node, job, pod)
        if place is None:
            log.error("a pod holds what its node does not show as free", pod=pod.name, node=pod.node)
            return None
        self._hold(place)
        return place

    def _hold(self, place: PodPlace) -> None:
        self._whole.update((place.node, gpu) for gpu in place.gpus)
        self._slices.update((place.node, s.gpu, s.instance.start) for s in place.slices)
        for share in place.shares:
            self._milli[place.node, share.gpu] += share.milli

    def _on(self, node: Node, job: Job, pod: PodSeen) -> PodPlace | None:
        number = pods_of(job)[pod.rank][0]
        asked = job.pod_sets[number]
        place = PodPlace(number, pod.rank, node.name, cpu=asked.cpu, memory_mib=asked.memory_mib)
        match asked.demand:
            case Whole(gpus):
                return self._with_gpus(node, place, gpus, pod.devices)
            case Slice() as wanted:
                return self._with_slice(node, place, wanted)
            case Share(milli, memory_mib):
                return self._with_share(node, place, milli, memory_mib)

    def _with_gpus(self, node: Node, place: PodPlace, count: int, told: tuple[int, ...]) -> PodPlace | None:
        free = [d.index for d in node.devices if not d.instances and self._is_untouched(node, d)]
        own = [gpu for gpu in told if gpu in free]
        chosen = sorted([*own, *(gpu for gpu in free if gpu not in own)][:count])
        return replace(place, gpus=tuple(chosen)) if len(chosen) == count else None

    def _is_untouched(self, node: Node, device: Device) -> bool:
        key = (node.name, device.index)
        return key not in self._whole and not self._milli[key]

    def _with_slice(self, node: Node, place: PodPlace, wanted: Slice) -> PodPlace | None:
        """The smallest free instance that is what was asked for."""
        free = [
            (d.index, instance)
            for d in node.devices
            for instance in d.instances
            if (node.name, d.index, instance.start) not in self._slices and _fits(node, instance, wanted)
        ]
        if not free:
            return None
        gpu, instance = min(free, key=lambda f: (_size(node, f[1]), f[0], f[1].start))
        return replace(place, slices=(SliceOn(gpu, instance),))

    def _with_share(self, node: Node, place: PodPlace, milli: int, memory_mib: int) -> PodPlace | None:
        for device in node.devices:
            key = (node.name, device.index)
            if key not in self._whole and not device.instances and self._milli[key] + milli <= MILLI:
                return replace(place, shares=(ShareOn(device.index, milli, memory_mib),))
        return None


def _fits(node: Node, instance: MigInstance, wanted: Slice) -> bool:
    profile = node.model.profile(instance.profile)
    if profile is None or wanted.profile is not None:
        return instance.profile == wanted.profile
    return profile.memory_mib >= wanted.memory_mib and profile.compute >= wanted.compute


def _size(node: Node, instance: MigInstance) -> tuple[int, int]:
    profile = node.model.profile(instance.profile)
    return (profile.size, profile.compute) if profile else (0, 0)
