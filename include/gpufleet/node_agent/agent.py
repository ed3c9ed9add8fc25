"""The loop of the agent: hear, warn the pods, then tell. What did not succeed is tried again in the next round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import httpx
import structlog

from gpufleet.clock import Clock
from gpufleet.node_agent.clouds.base import Metadata
from gpufleet.node_agent.cluster import DEVICES_USED, NodeApi, OurPod
from gpufleet.node_agent.notices import Notice, dump

log = structlog.get_logger()

MARGIN: Final = timedelta(seconds=2)
"""Between SIGKILL and the end of the machine, so that the kubelet can still tell how it ended."""
DEVICES_EVERY: Final = timedelta(seconds=10)
_LONGEST_GRACE: Final = 600

Devices = Callable[[], Mapping[tuple[str, str], str]]
"""By namespace and name of a pod, the devices that the kubelet gave to it."""


class Agent:
    """Keeps what was already done, so that a notice that stays is answered once."""

    def __init__(self, cloud: Metadata | None, api: NodeApi, clock: Clock, devices: Devices | None = None) -> None:
        self._cloud, self._api, self._clock, self._devices = cloud, api, clock, devices
        self._told: tuple[str, bool] | None = None
        self._known: dict[str, Notice] = {}
        self._ended: set[str] = set()
        self._asked: set[tuple[str, str]] = set()
        self._devices_due: datetime | None = None

    def round(self) -> None:
        """Never raises for a service that does not answer: the next round comes in a second."""
        for what in (self._hear, self._read_back):
            try:
                what()
            except (httpx.HTTPError, OSError) as e:
                log.warning("node agent", doing=what.__name__.strip("_"), error=str(e) or type(e).__name__)

    def _hear(self) -> None:
        if self._cloud is None:
            return
        now = self._clock.now()
        notices = self._remembered(self._cloud.notices(now))
        urgent = [notice for notice in notices if notice.is_urgent(now)]
        try:
            if urgent:
                self._end_pods(urgent, now)
            elif notices:
                self._ask_saves(notices)
        finally:  # even if a pod could not be warned, the controller shall hear of it
            self._tell(notices, leaving=bool(urgent))

    def _remembered(self, heard: tuple[Notice, ...]) -> tuple[Notice, ...]:
        """As each was heard first: some clouds tell neither since when nor, once it begins, until when."""
        self._known = {notice.id: self._known.get(notice.id, notice) for notice in heard}
        return tuple(self._known.values())

    def _end_pods(self, notices: list[Notice], now: datetime) -> None:
        """Also those that came since: a node under notice keeps none."""
        first = min(notices, key=lambda notice: notice.deadline or now)
        pods = [pod for pod in self._api.pods() if pod.uid not in self._ended and not pod.leaving]
        if not pods:
            return
        log.warning("node agent", notice=first.id, ends=len(pods))
        self._api.end(pods, f"notice:{first.kind}", grace_until(first.deadline or now, now))
        self._ended |= {pod.uid for pod in pods}

    def _ask_saves(self, notices: tuple[Notice, ...]) -> None:
        """One save for each notice and pod; the controller moves them in its own time."""
        pods = [pod for pod in self._api.pods() if not pod.leaving]
        for notice in notices:
            fresh = [pod for pod in pods if (notice.id, pod.uid) not in self._asked]
            if fresh:
                self._api.request_saves(fresh)
                self._asked |= {(notice.id, pod.uid) for pod in fresh}
                return

    def _tell(self, notices: tuple[Notice, ...], *, leaving: bool) -> None:
        """The first round tells in any case: what an agent before this one told may be over."""
        told = (dump(notices), leaving)
        if told != self._told:
            self._api.tell(told[0], leaving=leaving)
            self._told = told

    def _read_back(self) -> None:
        """Tell each pod which devices it has, where the device plugin chose them."""
        now = self._clock.now()
        if self._devices is None or (self._devices_due and now < self._devices_due):
            return
        self._devices_due = now + DEVICES_EVERY
        given = self._devices()
        for pod in self._api.pods() if given else ():
            self._note_devices(pod, given.get((pod.namespace, pod.name), ""))

    def _note_devices(self, pod: OurPod, devices: str) -> None:
        if devices and pod.annotations.get(DEVICES_USED) != devices:
            self._api.annotate(pod, {DEVICES_USED: devices})


def grace_until(deadline: datetime, now: datetime) -> int:
    """Whole seconds that a pod may take; at least one, for zero would mean no warning at all."""
    return max(1, min(_LONGEST_GRACE, int((deadline - now - MARGIN).total_seconds())))
