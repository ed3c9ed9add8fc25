"""Nodes, pods and golden orders of an openb workload, from their CSV files (plain or gzip)."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufleet.errors import Invalid

CARD = 1000


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the trace: cores and memory as the trace writes them, whole GPUs of one model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Request:
    """A pod of the trace: `gpus` GPUs with `milli` thousandths of each; `models` empty means any."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Thousandths of a GPU in all."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Run:
    """One seed's arrivals (indices into the pods) and the rank that breaks ties, lower first, of every node."""

    seed: int
    order: tuple[int, ...]
    ties: tuple[int, ...]


def read_machines(path: Path) -> tuple[Machine, ...]:
    """Nodes with GPUs, sorted by name (the order of golden ties)."""
    rows = (
        Machine(r["sn"], int(r["cpu_milli"]), int(r["memory_mib"]), int(r["gpu"]), r["model"])
        for r in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    )
    return tuple(sorted((m for m in rows if m.gpus), key=lambda m: m.name))


def read_requests(path: Path) -> tuple[Request, ...]:
    """Pods sorted by name (the order golden orders index)."""
    needed = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return tuple(_request(row) for row in sorted(_rows(path, needed), key=lambda r: r["name"]))


def _request(row: dict[str, str]) -> Request:
    gpus = int(row["num_gpu"])
    models = tuple(sorted(filter(None, row.get("gpu_spec", "").split("|"))))
    return Request(
        int(row["cpu_milli"]), int(row["memory_mib"]), gpus, int(row["gpu_milli"] or 0) if gpus else 0, models
    )


def read_runs(order: Path, ties: Path, seeds: int, pods: int, nodes: int) -> tuple[Run, ...]:
    """The first `seeds` rows of both files; each row is the seed, then its numbers."""
    found: list[Run] = []
    for (seed, arrivals), (same, ranks) in zip(_numbers(order), _numbers(ties), strict=False):
        if len(found) == seeds:
            break
        if seed != same:
            raise Invalid(f"{ties}: has seed {same} where {order} has {seed}; give files of the same workload.")
        if max(arrivals, default=0) >= pods:
            raise Invalid(f"{order}: seed {seed} names pod {max(arrivals)}, the pod list has {pods}.")
        if len(ranks) != nodes:
            raise Invalid(f"{ties}: seed {seed} ranks {len(ranks)} nodes, the node list has {nodes}.")
        found.append(Run(seed, arrivals, ranks))
    if not found:
        raise Invalid(f"{order}, {ties}: there is no row of a seed in both.")
    return tuple(found)


def _numbers(path: Path) -> Iterator[tuple[int, tuple[int, ...]]]:
    for line in _text(path):
        if line.strip() and not line.startswith("#"):
            try:
                seed, *rest = map(int, line.split(","))
            except ValueError as why:
                raise Invalid(f"{path}: a row is not numbers: {why}.") from None
            yield seed, tuple(rest)


def _rows(path: Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    reader = csv.DictReader(_text(path))
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise Invalid(f"{path}: has no column {missing[0]}; it needs {', '.join(needed)}.")
    return list(reader)


def _text(path: Path) -> io.StringIO:
    """The whole text; BadGzip, missing files and other bytes become one sentence."""
    try:
        data = path.read_bytes()
        return io.StringIO((gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode())
    except (OSError, EOFError, UnicodeDecodeError) as why:
        raise Invalid(f"{path}: cannot be read: {why}.") from None
