"""What these two rooms may import: a job's container has nothing else of gpufleet."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpufleet

ROOT = Path(gpufleet.__file__).parent
ROOMS = {
    "training": {"gpufleet.training", "fsspec"},
    "checkpoints": {
        "gpufleet.checkpoints",
        "gpufleet.training.manifest",
        "gpufleet.model",
        "gpufleet.errors",
        "fsspec",
    },
}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize(("room", "allowed"), ROOMS.items(), ids=ROOMS)
def test_a_room_imports_only_what_it_may(room: str, allowed: set[str]) -> None:
    for file in sorted((ROOT / room).rglob("*.py")):
        extra = {"numpy", "torch"} if file.parent.name == "examples" else set()
        for name in imported(file):
            ours = any(name == each or name.startswith(f"{each}.") for each in allowed | extra)
            assert ours or name.partition(".")[0] in sys.stdlib_module_names, f"{file} imports {name}"
