"""One process of the control plane: started, watched, stopped by its number; its words go to a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpufleet.sandbox.shim import born

STOP_WAIT: Final = 10.0
"""Seconds between the polite signal and the other one. An API server that lost its etcd would need far more."""
READY_WAIT: Final = 60.0
_LAST_LINES: Final = 15


class DidNotStart(Exception):
    """A part of the control plane ended, or did not answer in time; says which, and its last words."""


@dataclass
class Component:
    """A command that should be up from `start` to `stop`. Its session is its own: a Ctrl-C meant for us passes it by."""

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it. One that a killed plane left behind in this home ends first: it would hold the data."""
        self._end_predecessor()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._number.write_text(f"{self.process.pid} {born(self.process.pid)}")

    @property
    def _number(self) -> Path:
        return self.log.with_suffix(".pid")

    def _end_predecessor(self) -> None:
        if not self._number.exists():
            return
        pid, when = self._number.read_text().split()
        while born(int(pid)) == when:  # a number alone could be someone else's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.02)

    def wait_for(self, is_ready: Callable[[], bool], seconds: float = READY_WAIT) -> None:
        """Until it is ready; raises DidNotStart when it ends before, or takes too long."""
        until = time.monotonic() + seconds
        while not is_ready():
            if not self.is_up:
                raise DidNotStart(
                    f"{self.name} ended with {self._code}. Its last words, from {self.log}:\n{self.tail()}"
                )
            if time.monotonic() > until:
                raise DidNotStart(
                    f"{self.name} was not ready in {seconds:g} s. Its log {self.log} ends:\n{self.tail()}"
                )
            time.sleep(0.05)

    def ask_to_stop(self) -> None:
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # one that a test had paused would not hear

    def send(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT pause it and let it go on; SIGKILL is a power cut. Nothing happens when it is down."""
        if self.is_up and self.process:
            self.process.send_signal(number)

    def wait(self, seconds: float = STOP_WAIT) -> None:
        """Until it has ended; killed when that takes longer."""
        if self.process is None:
            return
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]) if self.log.exists() else ""

    @property
    def _code(self) -> int | None:
        return self.process.returncode if self.process else None
