"""The kubelet of some nodes: heartbeats, one loop over the pods bound to them, a door for their logs."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx

from gpufleet.sandbox.runner import ShimRunner
from tools.kubernetes.access import Access
from tools.kubernetes.certificates import Pair
from tools.kubernetes.kubelet.door import ApiDoor
from tools.kubernetes.kubelet.logs import LogDoor
from tools.kubernetes.kubelet.pods import PodLife, State
from tools.kubernetes.kubelet.watching import PodWatch

Raw = Mapping[str, Any]
Do = Callable[[], None]

TAINT: Final = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
"""Keeps pods away that nobody put here: each would become a process of this machine."""
HEARTBEAT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 0.2
_KILL_SECONDS: Final = 10.0


class Kubelet:
    """Plays the kubelet of `nodes` (raw Nodes, without status conditions) until `stop`, which ends all its processes.

    `serving` is for the door through which the API server reads logs. Killed, it leaves its processes running; a new
    one with the same `home` goes on with those it finds by their files, and declares pods lost of which it finds none.
    """

    def __init__(
        self,
        access: Access,
        serving: Pair,
        home: Path,
        nodes: Sequence[Raw],
        tell: Callable[[str], None] = print,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._home, self._tell = home, tell
        self._access, self._first = access, nodes
        self._watches: dict[str, PodWatch] = {}
        self._client = access.client()
        self._door = ApiDoor(self._client)
        self._runner = ShimRunner()
        self._lives: dict[str, PodLife] = {}
        self._wait_until: dict[str, float] = {}
        self._silent: set[str] = set()
        self._inbox: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._logs = LogDoor(serving, access.authority, self._log_of)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._work, self._beat)]

    def __enter__(self) -> Kubelet:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the nodes are registered and said to be ready; raises httpx.HTTPError when that fails."""
        self._logs.start()
        for node in self._first:
            self.add(node)
        for thread in self._threads:
            thread.start()

    def add(self, node: Raw) -> None:
        """One more node joins."""
        name = node["metadata"]["name"]
        self._door.add_node(_tainted(node))
        self._door.renew(name)
        self._door.say_ready(name, self._logs.port)
        self._silent.discard(name)
        self._watches[name] = PodWatch(self._access, name, self._changed, self._gone)
        self._watches[name].start()

    def remove(self, node: str) -> None:
        """Its machine is taken away with all that runs on it, and then, as a cloud's controller does, its object."""
        self.switch_off(node)
        self._watches.pop(node).stop()
        self._inbox.put(lambda: self._forget(node))
        self._door.delete_node(node)

    def stop(self) -> None:
        """No process of its pods stays. The API server hears nothing of it, as when a machine is switched off."""
        self._stopping.set()
        for watch in self._watches.values():
            watch.stop()
        for thread in self._threads:
            thread.join()
        self._kill(list(self._lives.values()))
        self._logs.stop()
        self._client.close()

    def end_pod(self, namespace: str, name: str, verdict: str) -> None:
        """What only a kubelet does to a pod: `OOMKilled` or `Evicted`."""

        def end() -> None:
            for life in self._called(namespace, name):
                life.end(verdict)

        self._inbox.put(end)

    def silence(self, node: str) -> None:
        """Cut the node off: no heartbeat, no word about its pods, whose processes go on."""
        self._silent.add(node)

    def switch_off(self, node: str) -> None:
        """The node goes dark with all that ran on it."""
        self.silence(node)
        self._inbox.put(lambda: self._kill([life for life in self._lives.values() if life.node == node]))

    def reconnect(self, node: str) -> None:
        self._silent.discard(node)

    def _forget(self, node: str) -> None:
        self._lives = {uid: life for uid, life in self._lives.items() if life.node != node}

    def _changed(self, pod: Raw) -> None:
        self._inbox.put(lambda: self._see(pod))

    def _gone(self, uid: str) -> None:
        self._inbox.put(lambda: self._lives[uid].leave() if uid in self._lives else None)

    def _see(self, pod: Raw) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._lives:
            self._lives[uid].update(pod)
        else:
            self._lives[uid] = PodLife(pod, self._home / "pods" / uid, self._runner, self._door)

    def _work(self) -> None:
        while not self._stopping.is_set():
            busy = any(life.state is not State.OVER for life in self._lives.values())
            with contextlib.suppress(queue.Empty):
                self._inbox.get(timeout=_LOOK_SECONDS if busy else _IDLE_SECONDS)()
                while True:
                    self._inbox.get_nowait()()
            self._step_all()
            self._runner.reap()

    def _step_all(self) -> None:
        now = time.monotonic()
        for uid, life in list(self._lives.items()):
            if life.node not in self._silent and self._wait_until.get(uid, 0) <= now and self._step(uid, life):
                del self._lives[uid]
                self._wait_until.pop(uid, None)

    def _step(self, uid: str, life: PodLife) -> bool:
        try:
            return life.step()
        except httpx.HTTPError as error:  # no API server, or an unwell one: the step comes again
            self._tell(f"{_name(life.pod)}: {error}")
            self._wait_until[uid] = time.monotonic() + _RETRY_SECONDS
        except Exception as error:  # one odd pod must not end the nodes of all others
            self._tell(f"{_name(life.pod)}: {error!r}")
            with contextlib.suppress(httpx.HTTPError):
                life.fail("KubeletError", repr(error))
        return False

    def _beat(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            for node in set(list(self._watches)) - self._silent:
                try:
                    self._door.renew(node)
                    if not self._door.is_ready(node):
                        self._door.say_ready(node, self._logs.port)
                except httpx.HTTPError as error:
                    self._tell(f"{node}: {error}")

    def _kill(self, lives: Sequence[PodLife]) -> None:
        until = time.monotonic() + _KILL_SECONDS
        while waiting := [life for life in lives if not life.kill()]:
            if time.monotonic() > until:
                raise RuntimeError(f"{', '.join(_name(life.pod) for life in waiting)} cannot be killed")
            time.sleep(_LOOK_SECONDS)
        self._runner.reap()

    def _called(self, namespace: str, name: str) -> list[PodLife]:
        return [life for life in list(self._lives.values()) if _name(life.pod) == f"{namespace}/{name}"]

    def _log_of(self, namespace: str, name: str) -> Path | None:
        """Of the newest pod of that name."""
        logs = [life.folders.log for life in self._called(namespace, name) if life.folders.log.exists()]
        return logs[-1] if logs else None


def _tainted(node: Raw) -> Raw:
    spec = node.get("spec", {})
    others = [taint for taint in spec.get("taints", []) if taint["key"] != TAINT["key"]]
    return {**node, "spec": {**spec, "taints": [*others, TAINT]}}


def _name(pod: Raw) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
