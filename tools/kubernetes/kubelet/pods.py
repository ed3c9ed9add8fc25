"""The life of one pod on its node: from bound to gone. One thread drives all of them, step by step."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

from gpufleet.sandbox.runner import Runner, Sight, Stage
from tools.kubernetes.kubelet import statuses
from tools.kubernetes.kubelet.containers import CannotRun, Folders, downward_files, pod_address, start_of, write_file
from tools.kubernetes.kubelet.door import ApiDoor

LEAST_GRACE: Final = 2.0
"""Seconds between SIGTERM and SIGKILL at least, as kubelets have it, whatever a deletion asks for."""
_OVER: Final = ("Succeeded", "Failed")
_NOWHERE: Final = ".invalid"
"""A registry of this domain (RFC 2606) does not exist: pulling from it fails here as it would anywhere."""
Raw = Mapping[str, Any]


class State(Enum):
    BOUND = "bound"
    ALIVE = "alive"
    OVER = "over"


class PodLife:
    """One pod. `step` is called again and again, and may raise httpx.HTTPError: then the same step comes again."""

    def __init__(self, pod: Raw, root: Path, runner: Runner, door: ApiDoor) -> None:
        self.pod, self.state = pod, State.BOUND
        self.folders = Folders(root)
        self._runner, self._door = runner, door
        self._said_running = self._said_waiting = self._is_gone = self._asked = False
        self._since: float | None = None
        self._verdict = ""

    @property
    def node(self) -> str:
        return str(self.pod["spec"]["nodeName"])

    def update(self, pod: Raw) -> None:
        """The pod as it is now; its downward files follow."""
        before, self.pod = self.pod, pod
        if self.state is State.ALIVE and before["metadata"] != pod["metadata"]:
            self._write_downward()

    def leave(self) -> None:
        """Its object is gone, by force or by the garbage collector: so must its process."""
        self._is_gone = True

    def end(self, verdict: str) -> None:
        """End it by the kubelet's own doing: `OOMKilled` or `Evicted`."""
        self._verdict = verdict

    def step(self) -> bool:
        """Do what is due; True when nothing is left of it."""
        if self.state is State.BOUND:
            self._begin()
        elif self.state is State.ALIVE:
            self._watch()
        elif self._is_gone:
            self._runner.forget(self.folders.home)
            shutil.rmtree(self.folders.root, ignore_errors=True)
            return True
        elif self._must_leave and self.pod["metadata"].get("deletionGracePeriodSeconds") != 0:
            self._door.take_away(self.pod)
        return False

    def kill(self) -> bool:
        """Make sure that its process ends; True when it has, or never was."""
        if not self.folders.home.exists():
            return True
        sight = self._runner.look(self.folders.home)
        if sight.stage is Stage.STARTING:
            return self._runner.void(self.folders.home)
        return sight.stage is not Stage.RUNNING or not self._runner.signal(self.folders.home, signal.SIGKILL)

    def fail(self, reason: str, message: str, code: int = 128) -> None:
        self._over(statuses.never_ran(self.pod, reason, message, _now(), code))

    @property
    def _must_leave(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    def _begin(self) -> None:
        status = self.pod["status"]
        if status.get("phase") in _OVER or self._is_gone:
            self.state = State.OVER
        elif self.folders.home.exists():  # a kubelet before us started it; the runner finds it by its files
            self.state = State.ALIVE
            self._said_running = status.get("phase") == "Running"
        elif self._must_leave or status.get("phase") == "Running":
            self.fail("ContainerStatusUnknown", "The container could not be located when the pod was terminated", 137)
        elif self._image.split("/")[0].endswith(_NOWHERE):
            self._wait_for_image()
        else:
            self._start()

    @property
    def _image(self) -> str:
        return str(self.pod["spec"]["containers"][0]["image"])

    def _wait_for_image(self) -> None:
        if not self._said_waiting:
            message = f'Back-off pulling image "{self._image}": no such host'
            self._door.tell(self.pod, statuses.waiting(self.pod, "ImagePullBackOff", message))
            self._said_waiting = True

    def _start(self) -> None:
        try:
            start = start_of(self.pod, self.folders, self._door.fetch)
        except CannotRun as no:
            return self.fail(no.reason, no.message)
        self.folders.make()
        self._runner.start(start)
        self.state = State.ALIVE
        return None

    def _watch(self) -> None:
        sight = self._runner.look(self.folders.home)
        if sight.stage is Stage.NO_START:
            self.fail("StartError", sight.error)
        elif sight.stage is Stage.VOID:
            self.fail("ContainerStatusUnknown", "It was stopped before it had started.", 137)
        elif sight.stage in (Stage.ENDED, Stage.VANISHED):
            self._over({**self._addresses, **statuses.ended(self.pod, sight, _now(), self._verdict)})
        else:
            self._tend(sight)

    def _tend(self, sight: Sight) -> None:
        if sight.stage is Stage.RUNNING and not self._said_running:
            self._door.tell(self.pod, statuses.running(self.pod, sight.started_at or _now(), pod_address(self.pod)))
            self._said_running = True
        if self._verdict:
            self.kill()
        elif self._must_leave or self._is_gone:
            self._press(sight)

    def _press(self, sight: Sight) -> None:
        """SIGTERM once it can hear it; SIGKILL when the grace is over. A later deletion may shorten the grace."""
        if sight.stage is Stage.STARTING:
            self._runner.void(self.folders.home)
            return
        self._since = time.monotonic() if self._since is None else self._since
        self._asked = self._asked or self._runner.signal(self.folders.home, signal.SIGTERM)
        if time.monotonic() >= self._since + self._grace:
            self._runner.signal(self.folders.home, signal.SIGKILL)

    @property
    def _grace(self) -> float:
        metadata = self.pod["metadata"]
        return max(LEAST_GRACE, 0 if self._is_gone else metadata.get("deletionGracePeriodSeconds") or 0)

    def _over(self, status: statuses.Raw) -> None:
        if not self._is_gone:
            self._door.tell(self.pod, status)
        self.state = State.OVER

    @property
    def _addresses(self) -> statuses.Raw:
        address = pod_address(self.pod)
        return {"podIP": address, "podIPs": [{"ip": address}]}

    def _write_downward(self) -> None:
        for volume in self.pod["spec"].get("volumes") or ():
            if "downwardAPI" in volume:
                for path, text in downward_files(self.pod, volume):
                    write_file(self.folders.volume(volume["name"]) / path, text)


def _now() -> datetime:
    return datetime.now(UTC)
