"""Real sandboxes for tests: a process of its own on loopback, found by its door file, ended by its process id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from gpufleet.clouds.sandbox import SandboxCloud
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import Temporary
from gpufleet.sandbox.door import Door, read_door

Found = TypeVar("Found")

PATIENCE = 20.0
"""Seconds a test waits for what must come. Only a failing test waits so long."""

WORLD: Mapping[str, Any] = {
    "version": 1,
    "levels": ["zone", "leaf"],
    "clock": {"factor": 720},
    "nodes": [
        {
            "name": "res-0",
            "model": "H100-80",
            "gpus": 8,
            "position": ["zone-a", "leaf-a1"],
            "capacity": "reserved",
            "cpu": 96,
            "memory_gib": 1024,
            "mig": "slice",
            "layout": {7: ["1g.10gb@6"]},
            "provider": "owned",
            "region": "r1",
        },
        {
            "name": "spot-a{}",
            "count": 2,
            "model": "H100-80",
            "gpus": 8,
            "position": ["zone-a", "leaf-a1"],
            "capacity": "spot",
            "offering": "spot-h100-a",
            "region": "r1",
        },
    ],
    "offerings": [
        {
            "name": "spot-h100-a",
            "region": "r1",
            "zone": "zone-a",
            "leaf": "leaf-a1",
            "instance_type": "gpu8-h100",
            "capacity": "spot",
            "model": "H100-80",
            "gpus": 8,
            "price": "12.00",
            "launch_delay": "200ms",
            "available": 4,
        }
    ],
    "notice": "10s",
}
"""One reserved node with a MIG slice, two spot nodes, four more to buy; a fast ledger."""


def eventually(look: Callable[[], Found | None], *, within: float = PATIENCE) -> Found:
    """The first true thing that `look` finds; fails when none came in time."""
    until = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"Nothing came within {within:g} s; the last look found {found!r}.")
        time.sleep(0.02)


@dataclass
class RunningSandbox:
    """A sandbox in its own process; may be killed and started again while it is in use."""

    home: Path
    world: Path
    env: Mapping[str, str]
    options: tuple[str, ...] = ("--stop-pods",)
    process: subprocess.Popen[bytes] = field(init=False)
    may_have_left_pods: bool = field(init=False, default=False)

    def start(self) -> None:
        """Returns when the door is open."""
        with (self.home / "sandbox.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpufleet.sandbox", "--home", self.home, "--world", self.world, *self.options],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._is_open)

    def _is_open(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"The sandbox ended with {self.process.returncode}: {self.log()}")
        with contextlib.suppress(Temporary):
            return self.door.pid == self.process.pid
        return False

    @property
    def door(self) -> Door:
        return read_door(self.home)

    def kill(self) -> None:
        """As a power cut would: no word of farewell."""
        self.may_have_left_pods = True
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        self.may_have_left_pods = "--stop-pods" not in self.options
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return (self.home / "sandbox.log").read_text()

    def cluster(self, name: str = "sandbox") -> SandboxCluster:
        return SandboxCluster(self.home, name)

    def cloud(self, name: str = "sandbox") -> SandboxCloud:
        return SandboxCloud(self.home, name)

    def get(self, path: str) -> Any:
        return self._answer(self._http().get(path))

    def post(self, path: str, **body: object) -> Any:
        """What only tests and the demo do: `post("/v1/cloud/reclaim", node="spot-a0")`."""
        return self._answer(self._http().post(path, json=body))

    def _http(self) -> httpx.Client:
        door = self.door
        return httpx.Client(base_url=door.url, headers={"Authorization": f"Bearer {door.token}"}, trust_env=False)

    @staticmethod
    def _answer(answer: httpx.Response) -> Any:
        assert answer.is_success, answer.text
        return answer.json()


@contextlib.contextmanager
def running_sandbox(
    home: Path,
    world: Mapping[str, Any] | Path = WORLD,
    env: Mapping[str, str] | None = None,
    options: tuple[str, ...] = ("--stop-pods",),
) -> Iterator[RunningSandbox]:
    """A sandbox in `home`; afterwards it and all its pods are gone, also when the test had killed it."""
    home.mkdir(parents=True, exist_ok=True)
    if not isinstance(world, Path):
        path = home / "world.yaml"
        path.write_text(yaml.safe_dump(dict(world)))
        world = path
    sandbox = RunningSandbox(home, world, env or {}, options)
    sandbox.start()
    try:
        yield sandbox
    finally:
        _end_all(sandbox)


def _end_all(sandbox: RunningSandbox) -> None:
    """A sandbox that was killed, or was not to stop its pods, left them behind: a successor takes them along."""
    if sandbox.process.poll() is None:
        sandbox.stop()
    if sandbox.may_have_left_pods:
        sandbox.options = ("--stop-pods",)
        sandbox.start()
        sandbox.stop()
