"""The watches of one cluster, side by side: nodes, our pods, pods of others, and DRA's devices where they are served."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.api import Api
from gpufleet.clusters.kubernetes.handing import GroupFact, Scheduler, group_fact
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.seeing.fleet import ClusterFacts, Known, Seen, see
from gpufleet.clusters.kubernetes.seeing.foreign import ForeignPod, foreign_pod, taken_by_node
from gpufleet.clusters.kubernetes.seeing.held import Held, held_on_node
from gpufleet.clusters.kubernetes.seeing.nodes import NodeFact, node_fact
from gpufleet.clusters.kubernetes.seeing.pods import PodFact, ended_once, pod_fact
from gpufleet.clusters.kubernetes.seeing.slices import ClaimFact, SliceFact, claim_fact, held_by_others, slice_fact
from gpufleet.clusters.kubernetes.watching import Reflector
from gpufleet.errors import Temporary
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.model.hardware import NodeState

Raw = Mapping[str, Any]

FIRST_LOOK: Final = 20.0
"""Seconds in which everything must have been listed once."""
SAME_LOOK: Final = 1.0
LIVING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class Views:
    """Opened with the first look, once in a process; a forked child opens its own."""

    def __init__(
        self,
        api: Api,
        fleet: str,
        config: SeeingConfig,
        stale_after: timedelta,
        schedulers: Iterable[Scheduler] = (),
    ) -> None:
        mark = names.label_value(fleet)
        self._schedulers = tuple(schedulers)
        self._fleet, self._config, self._stale_after = mark, config, stale_after.total_seconds()
        self._api = api
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._pid = 0
        self._seen: tuple[float, Seen] | None = None
        self._known: Known = {}
        self._make(mark)

    def _make(self, mark: str) -> None:
        api, config = self._api, self._config
        ours = {"labelSelector": f"{names.FLEET}={mark}"}
        others = {"labelSelector": f"{names.FLEET}!={mark}", "fieldSelector": LIVING}
        self._nodes = Reflector[NodeFact](api, paths.NODES, {}, lambda raw: node_fact(raw, config))
        self._ours = Reflector[PodFact](api, paths.PODS, ours, pod_fact, ended_once)
        self._others = Reflector[ForeignPod](api, paths.PODS, others, foreign_pod)
        self._slices = Reflector[SliceFact](api, paths.SLICES, {}, slice_fact)
        self._claims = Reflector[ClaimFact](api, paths.CLAIMS, {}, claim_fact)
        self._groups = [
            Reflector[GroupFact](api, s.groups, {}, partial(group_fact, scheduler=s)) for s in self._schedulers
        ]

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        return (self._nodes, self._ours, self._others, self._slices, self._claims, *self._groups)

    def look(self) -> list[PodFact]:
        """Our pods as the watches have them. Raises Temporary while one of them is behind or not heard."""
        self._hear()
        return self._ours.facts()

    def _hear(self) -> None:
        self._open()
        for view in self.all:
            view.wait(FIRST_LOOK)
        oldest = max(view.age() for view in self.all)
        if oldest > self._stale_after:
            raise Temporary(
                f"The cluster {self._api.name} was last heard {oldest:.0f} s ago: what is there is not known."
            )

    def nodes(self, *, fresh: bool = False) -> Seen:
        """The nodes, put together anew when that is `fresh` or a second ago: a plan starts many gangs at once."""
        self._hear()
        with self._reading:  # hundreds may ask at once: one of them reads
            with self._lock:
                known = self._seen
            if not fresh and known is not None and time.monotonic() - known[0] <= SAME_LOOK:
                return known[1]
            began = time.monotonic()
            seen = see(self._facts(self._ours.facts()), self._config, self._api.name, self._known)
            with self._lock:
                self._seen = (began, seen)
            return seen

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """What the clouds announced, as the agents on the nodes heard it."""
        return tuple(notice for fact in self._nodes.facts() for notice in fact.notices)

    def groups(self) -> list[GroupFact]:
        """What other schedulers tell of the pods that were handed to them."""
        return [fact for view in self._groups for fact in view.facts()]

    def lost_among(self, names_: Iterable[str]) -> set[str]:
        """Those of the nodes that the API calls lost, or does not have."""
        self.look()
        there = {fact.name for fact in self._nodes.facts() if fact.state is not NodeState.LOST}
        return {name for name in names_ if name and name not in there}

    def note_pod(self, raw: Raw) -> None:
        if raw.get("kind") == "Pod":
            self._ours.note(raw)

    def note_node(self, raw: Raw) -> None:
        self._nodes.note(raw)
        with self._lock:
            self._seen = None

    def forget_pod(self, uid: str) -> None:
        self._ours.forget(uid)

    def close(self) -> None:
        self._pid = 0

    def _open(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._make(self._fleet)  # threads and connections do not live on in a forked child
                self._pid = os.getpid()
                for view in self.all:
                    view.begin()

    def _facts(self, pods: Iterable[PodFact]) -> ClusterFacts:
        slices: dict[str, SliceFact] = {}
        for found in self._slices.facts():
            if found.gpus:
                slices[found.node] = found
        return ClusterFacts(
            nodes=tuple(self._nodes.facts()),
            taken=taken_by_node(self._others.facts()),
            held=_held(pods),
            slices=slices,
            claimed=held_by_others(self._claims.facts(), self._fleet),
        )


def _held(pods: Iterable[PodFact]) -> dict[str, Held]:
    planned: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.planned and not pod.seen.phase.is_over:
            planned[pod.seen.node].append(pod.planned)
    return {node: held_on_node(texts) for node, texts in planned.items()}
