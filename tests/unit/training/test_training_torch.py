"""The PyTorch example, where PyTorch is installed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Processes

pytest.importorskip("torch")


def test_the_pytorch_example_stops_and_resumes(processes: Processes, until: Any) -> None:
    program = ["-m", "gpufleet.training.examples.torch_ddp"]
    ranks = processes.digits(attempt=1, program=program, OPTIONS="--steps 100000")
    until(lambda: processes.progress(1)["step"] >= 5)
    ranks[0].send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in ranks] == [143, 143]
    saved = processes.progress(1)["last_save"]["step"]
    ranks = processes.digits(attempt=2, program=program, OPTIONS=f"--steps {saved + 5}")
    assert [process.wait(30) for process in ranks] == [0, 0]
    assert processes.progress(2)["base"] == {"attempt": 1, "step": saved}
