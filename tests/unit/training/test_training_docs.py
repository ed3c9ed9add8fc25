"""Every example of docs/training.md runs as it stands."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Processes, Rig

GUIDE = Path(__file__).parents[3] / "docs" / "training.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("environ", [{}, {"GPUFLEET_JOB": "docs", "GPUFLEET_ATTEMPT": "1"}], ids=["alone", "as a job"])
@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[0])
def test_the_python_examples_run(processes: Processes, code: str, environ: dict[str, str], tmp_path: Path) -> None:
    store = {"GPUFLEET_CHECKPOINT_URL": str(tmp_path / "docs-store")} if environ else {}
    process = processes.rank(["-c", code], **environ, **store, GPUFLEET_CHECKPOINT_INTERVAL=0)
    _, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (0, "")


def test_the_loop_of_the_guide_resumes(processes: Processes, rig: Rig) -> None:
    loop = blocks("python")[0]
    settings = {"GPUFLEET_JOB": "job-a", "GPUFLEET_CHECKPOINT_URL": rig.url, "GPUFLEET_CHECKPOINT_INTERVAL": 0}
    short = loop.replace("STEPS = 20", "STEPS = 8")
    assert processes.rank(["-c", short], **settings, GPUFLEET_ATTEMPT=1).wait(30) == 0
    assert processes.rank(["-c", loop], **settings, GPUFLEET_ATTEMPT=2).wait(30) == 0
    assert rig.progress(2)["base"] == {"attempt": 1, "step": 8}
    assert rig.path("2/000000000020/rank-0.bin").read_bytes() == b"10.0"


def test_the_shell_example_trains(tmp_path: Path) -> None:
    (example,) = blocks("bash")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        example = example.replace("MASTER_PORT=29511", f"MASTER_PORT={listener.getsockname()[1]}")
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {"PATH": python, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", "-ec", example], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert "weights sha256=" in done.stdout
    assert (tmp_path / "checkpoints/digits/weights.bin").exists()
