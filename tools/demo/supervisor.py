"""Starts the processes of an embedded fleet, restarts what dies, and leaves nothing behind.

`airflow standalone` does not restart a component that was killed, so this does: a triggerer, scheduler, dag processor
or api-server that is gone is started again on its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

COMPONENTS = ("scheduler", "dag-processor", "api-server", "triggerer")
GRACE = 15.0


class Child:
    """One process that should be up, in its own session so that a signal to us does not reach it first."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], log: Path, *, stop_with: int
    ) -> None:
        self.name, self._command, self._environment, self._log, self._stop_with = (
            name,
            command,
            environment,
            log,
            stop_with,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd=self._environment["GPUFLEET_HOME"],
            )  # fmt: skip
        self.starts += 1

    def family(self) -> list[psutil.Process]:
        """It and all that came from it."""
        if self.process is None:
            return []
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """Ask, wait, then make sure: no process of the family stays."""
        family = self.family()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self._stop_with)
            _gone([psutil.Process(self.process.pid)] if psutil.pid_exists(self.process.pid) else [], GRACE)
        end([p for p in family if p.is_running()])
        if self.process is not None:
            self.process.wait(timeout=5)


def strays(home: Path) -> list[psutil.Process]:
    """What still runs with this fleet's home in its environment: children of something that was killed under us."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _is_of(process, home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _is_of(process: psutil.Process, home: Path) -> bool:
    """By its environment; Airflow's own overwrite theirs with a title, and are known by title and folder."""
    if process.environ().get("GPUFLEET_HOME") == str(home):
        return True
    return process.cmdline()[:1] != [] and process.cmdline()[0].startswith("airflow ") and process.cwd() == str(home)


def end(processes: list[psutil.Process]) -> None:
    """TERM, then KILL: none of them stays."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    for process in _gone(processes, 3.0):
        _signal(process, signal.SIGKILL)
    _gone(processes, 3.0)


def _gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait for them; returns those that are still there."""
    return list(psutil.wait_procs(processes, timeout=seconds)[1])


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


class Supervisor:
    """Keeps children up until told to stop."""

    def __init__(self, tell: Callable[[str], None] = print) -> None:
        self.children: dict[str, Child] = {}
        self._tell = tell
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._component: Callable[[str], Child] | None = None

    def add(self, child: Child) -> None:
        self.children[child.name] = child
        child.start()

    def watch(self, component: Callable[[str], Child]) -> None:
        """Restart what dies from now on; `component` makes the child for one component of Airflow."""
        self._component = component
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(1.0):
            for child in list(self.children.values()):
                if not child.is_up and not self._stopping.is_set():
                    self._tell(f"{child.name} died; starting it again")
                    child.start()
            self._restart_components()

    def _restart_components(self) -> None:
        """Components of Airflow that standalone lost, once it is fully up."""
        standalone = self.children.get("airflow")
        if standalone is None or not standalone.is_up or self._component is None:
            return
        running = _components(standalone.family())
        for name in COMPONENTS:
            if name not in running and name not in self.children and not self._stopping.is_set():
                self._tell(f"airflow {name} died; starting it again")
                self.add(self._component(name))

    def stop(self) -> None:
        """End everything at once: each knows how to leave by itself, and nobody of them needs another for it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with ThreadPoolExecutor(len(self.children) or 1) as pool:
            list(pool.map(Child.stop, list(self.children.values())))


def _components(family: list[psutil.Process]) -> set[str]:
    """Which components of Airflow are among these processes; a zombie is none."""
    found = set()
    for process in family:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                words = process.cmdline()
                found |= {name for name in COMPONENTS if name in words} | _titled(words)
        except psutil.NoSuchProcess:
            continue
    return found


def _titled(words: list[str]) -> set[str]:
    """Components rename themselves: `airflow triggerer`, `gunicorn: ... api-server`, and the like."""
    title = " ".join(words)
    return {name for name in COMPONENTS if f"airflow {name}" in title or f"airflow {name.replace('-', '_')}" in title}


def wait_until(question: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Ask until yes or the time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if question():
            return True
        time.sleep(every)
    return question()


PYTHON = sys.executable
