"""What an experiment's result depends on, as one digest: the sources it runs, the files it reads, its arguments."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from benchmarks.experiments import PROJECT, Experiment

ROOTS = {"gpufleet": PROJECT / "include" / "gpufleet", "benchmarks": PROJECT / "benchmarks"}
"""Our packages, by name."""
DOORS = {"simulate": "gpufleet.commands.simulate", "speed": "benchmarks.speed", "ceiling": "benchmarks.ceiling"}
"""The module behind the first word of a command line."""
TABLES = ("*.json", "*.csv", "*.yaml")
"""Data that a package carries."""


def digest(experiment: Experiment) -> str:
    """Equal digests give equal results (seconds aside), so nothing need be run again."""
    found = hashlib.sha256(" ".join(experiment.words).encode())
    for path in (*sources(DOORS[experiment.words[1]]), *read_by(experiment.words)):
        found.update(str(path.relative_to(PROJECT)).encode() + _sum(path))
    return found.hexdigest()


def read_by(words: Iterable[str]) -> list[Path]:
    """Files that the words name, and files that a spec among them names."""
    named = [PROJECT / w for w in words if (PROJECT / w).is_file()]
    return [*named, *(file for path in named if path.suffix == ".yaml" for file in _beside(path))]


def _beside(spec: Path) -> list[Path]:
    """Files named by strings of a spec, relative to it."""
    words = re.findall(r"[\w./-]+", str(yaml.safe_load(spec.read_text())))
    return sorted({p.resolve() for w in words if "/" in w and (p := spec.parent / w).is_file()})


def sources(module: str) -> tuple[Path, ...]:
    """The module, all of ours it imports in whatever depth, and the tables beside them."""
    seen: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = _file(name)
        if name not in seen and path is not None:
            seen[name] = path
            todo += _imports(path)
    folders = {p.parent for p in seen.values() if p.is_relative_to(ROOTS["gpufleet"])}
    return tuple(sorted({*seen.values(), *(t for f in folders for kind in TABLES for t in f.glob(kind))}))


def _file(name: str) -> Path | None:
    """Where a module of ours is written down."""
    first, *rest = name.split(".")
    if first not in ROOTS:
        return None
    path = ROOTS[first].joinpath(*rest)
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """Names it imports, at whatever place, that may be modules, with the packages around them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _sum(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
