"""A rig for one rank in this process, and for whole jobs of real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gpufleet
from gpufleet.training import Run
from gpufleet.training.clock import Clock
from gpufleet.training.environment import Environment
from gpufleet.training.job import Waits
from gpufleet.training.watching import StopFlag

PACKAGES = str(Path(gpufleet.__file__).parents[1])


class HandClock(Clock):
    """Stands still until told; sleeping passes time at once."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


@dataclass
class Rig:
    """One job's store, and ranks opened on it in this process."""

    url: str
    clock: HandClock = field(default_factory=HandClock)

    def open(self, *, attempt: int = 1, rank: int = 0, world_size: int = 1, **settings: Any) -> Run:
        stop = settings.pop("stop", None) or StopFlag()
        place = Environment("job-a", attempt, rank, world_size, self.url, **settings)
        return Run(place, stop, total_steps=100, waits=Waits(start=5, save=5), clock=self.clock)

    def path(self, below: str) -> Path:
        return Path(self.url, "job-a", below)

    def steps(self, attempt: int = 1) -> list[int]:
        """Folders of saves, complete or not."""
        return sorted(int(entry.name) for entry in self.path(str(attempt)).iterdir() if entry.is_dir())

    def progress(self, attempt: int = 1) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.path(f"{attempt}/progress.json").read_bytes())
        return values


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(str(tmp_path / "store"))


@dataclass
class Processes:
    """Starts real rank processes and leaves none behind."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def rank(self, command: list[str], **environ: object) -> subprocess.Popen[str]:
        clean = {name: text for name, text in os.environ.items() if not name.startswith("GPUFLEET_")}
        environ = {"PYTHONPATH": PACKAGES, **environ}
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**clean, **{name: str(value) for name, value in environ.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def digits(self, *, attempt: int, world_size: int = 2, program: list[str] | None = None, **environ: object) -> Any:
        """All ranks of one attempt of the digits example; the newest save is tried after every step by default."""
        environ = {
            "GPUFLEET_JOB": "job-a",
            "GPUFLEET_ATTEMPT": attempt,
            "GPUFLEET_CHECKPOINT_URL": self.root,
            "GPUFLEET_PROGRESS_INTERVAL": 0,
            "GPUFLEET_RENDEZVOUS_TOKEN": "a secret of this attempt",
            "WORLD_SIZE": world_size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": free_port(),
            **environ,
        }
        command = program or ["-m", "gpufleet.training.examples.digits"]
        options = str(environ.pop("OPTIONS", "--steps 30 --seed 5")).split()
        return [self.rank([*command, *options], **environ, RANK=rank) for rank in range(world_size)]

    def progress(self, attempt: int) -> dict[str, Any]:
        path = self.root / "job-a" / str(attempt) / "progress.json"
        values: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {"step": -1}
        return values

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    running = Processes(tmp_path / "store")
    yield running
    running.end()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Poll until a condition holds, at most 20 s."""

    def wait(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, "it did not come about within 20 s"
            time.sleep(0.01)

    return wait


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
