"""Pods as real processes, found again after a restart by files, process number and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from gpufleet.sandbox import shim

LOG_CAP: Final = 10 * 1024 * 1024
"""Bytes of log kept per pod, at most; room for a day of an ordinary training's lines."""


class Stage(StrEnum):
    STARTING = "starting"
    VOID = "void"
    """It never started and never will."""
    NO_START = "no-start"
    RUNNING = "running"
    ENDED = "ended"
    VANISHED = "vanished"
    """Process and parent are gone without a word: the machine was restarted, or someone killed both."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a pod's process now; both instants are by the real clock."""

    stage: Stage
    started_at: datetime | None = None
    ended_at: datetime | None = None
    code: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """What to start, and where."""

    home: Path
    work: Path
    log: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]


class Runner(Protocol):
    """Whatever runs pods; the sandbox's rules are the same over real processes and over a test's pretended ones."""

    def start(self, start: Start) -> None:
        """Start it, unless it was started already. What goes wrong is seen by `look`."""
        ...

    def void(self, home: Path) -> bool:
        """Make sure that a start which has not begun never will; False when it has begun."""
        ...

    def look(self, home: Path) -> Sight: ...

    def signal(self, home: Path, number: signal.Signals) -> bool:
        """To its whole process group; False when there is no process (yet, or any more)."""
        ...

    def forget(self, home: Path) -> None: ...

    def reap(self) -> None:
        """Let ended processes go: called with every look at the world."""
        ...


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    born: str

    @property
    def is_alive(self) -> bool:
        return shim.born(self.pid) == self.born


class ShimRunner:
    """Every pod behind a shim of its own (see `shim`), which needs no sandbox to go on."""

    def __init__(self, log_cap: int = LOG_CAP) -> None:
        self._log_cap = log_cap
        self._children: dict[Path, tuple[int, subprocess.Popen[bytes]]] = {}
        self._shims: dict[Path, _Process] = {}
        self._started: dict[Path, tuple[_Process, datetime]] = {}

    def start(self, start: Start) -> None:
        number, claimed = _claim(start.home)
        if claimed is not None:
            return
        argv = [sys.executable, "-I", "-S", shim.__file__, str(start.home), str(number), str(self._log_cap)]
        try:
            start.log.parent.mkdir(parents=True, exist_ok=True)
            with start.log.open("a+b") as log:
                child = subprocess.Popen(
                    [*argv, *start.command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=start.work,
                    env=start.environment,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            shim.write_new(str(start.home), shim.ENDED, f"error {error}")
            return
        self._children[start.home] = number, child

    def void(self, home: Path) -> bool:
        number, claimed = _claim(home)
        return claimed is None and shim.write_new(str(home), f"{shim.CLAIM}{number}", shim.VOID)

    def look(self, home: Path) -> Sight:
        if ending := self._ending(home):
            return ending
        parent = self._shim(home)
        if parent is None:
            return self._unclaimed(home)
        if parent.is_alive:
            started = self._process(home)
            return Sight(Stage.RUNNING, started[1]) if started else Sight(Stage.STARTING)
        return self._ending(home) or self._orphan(home)  # it may have written its last word since the first look

    def signal(self, home: Path, number: signal.Signals) -> bool:
        started = self._process(home)
        if started is None or not started[0].is_alive:
            return False
        with contextlib.suppress(ProcessLookupError):  # it ended between the two looks: as good as delivered
            os.killpg(started[0].pid, number)
        return True

    def forget(self, home: Path) -> None:
        for memory in (self._children, self._shims, self._started):
            memory.pop(home, None)

    def reap(self) -> None:
        for _, child in self._children.values():
            child.poll()

    def _ending(self, home: Path) -> Sight | None:
        text = _read(home, shim.ENDED)
        if text is None:
            return None
        kind, _, rest = text.partition(" ")
        if kind == "error":
            return Sight(Stage.NO_START, error=rest)
        code, at = rest.split()
        started = self._process(home)
        return Sight(Stage.ENDED, started and started[1], _instant(at), int(code))

    def _shim(self, home: Path) -> _Process | None:
        if home not in self._shims:
            claimed = _claim(home)[1]
            if claimed is None:
                return None
            self._shims[home] = claimed
        return self._shims[home]

    def _process(self, home: Path) -> tuple[_Process, datetime] | None:
        if home not in self._started:
            text = _read(home, shim.STARTED)
            if text is None:
                return None
            pid, born, at = text.split()
            self._started[home] = _Process(int(pid), born), _instant(at)
        return self._started[home]

    def _unclaimed(self, home: Path) -> Sight:
        """No shim has spoken yet: still on its way, dead before its first word, or never to come."""
        number, child = self._children.get(home, (0, None))
        if number < _claim(home)[0]:
            return Sight(Stage.VOID)
        if child is not None and child.poll() is not None and _claim(home)[1] is None:
            return Sight(Stage.NO_START, error=f"its parent process ended at once with {child.returncode}")
        return Sight(Stage.STARTING)

    def _orphan(self, home: Path) -> Sight:
        if self.signal(home, signal.SIGKILL):
            return Sight(Stage.RUNNING, self._started[home][1])
        return Sight(Stage.VANISHED, self._started[home][1] if home in self._started else None)


def _claim(home: Path) -> tuple[int, _Process | None]:
    """The number of the start that counts, and the shim that claimed it, if one has."""
    number = 1
    while True:
        text = _read(home, f"{shim.CLAIM}{number}")
        if text is None:
            return number, None
        if text != shim.VOID:
            pid, born = text.split()
            return number, _Process(int(pid), born)
        number += 1


def _read(home: Path, name: str) -> str | None:
    """A file of the shim, None while there is none. Without building a Path: every look at every pod comes here."""
    try:
        with open(f"{home}/{name}", encoding="utf-8") as file:  # noqa: PTH123 - see above
            return file.read()
    except FileNotFoundError:
        return None


def _instant(seconds: str) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
