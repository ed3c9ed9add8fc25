"""The whole demo, as a newcomer runs it: it holds, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "cluster",
    [pytest.param("sandbox", marks=pytest.mark.demo), pytest.param("kubernetes", marks=pytest.mark.kubernetes)],
)
@pytest.mark.timeout(420)
def test_every_step_of_the_story_holds_and_nothing_is_left(tmp_path: Path, cluster: str) -> None:
    home = tmp_path / "demo"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "GPUFLEET_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo", "demo", "--exit", "--cluster", cluster, "--home", str(home)],
        cwd=PROJECT, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    left = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(home) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []
