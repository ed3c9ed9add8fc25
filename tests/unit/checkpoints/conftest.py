"""Stores with saves in them, on a folder and on an object store."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from gpufleet.training import manifest as m
from gpufleet.training.manifest import Base, Manifest, SaveRef, Shard

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Depot:
    """Writes what jobs would have written to the store at `url`."""

    url: str

    def __post_init__(self) -> None:
        self.fs, self.root = self._open()

    def _open(self) -> tuple[Any, str]:
        return fsspec.core.url_to_fs(self.url)

    def put(self, path: str, data: bytes) -> None:
        full = f"{self.root}/job-a/{path}"
        self.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(full, data)

    def remove(self, path: str) -> None:
        self.fs.rm_file(f"{self.root}/job-a/{path}")

    def has(self, path: str) -> bool:
        return bool(self.fs.exists(f"{self.root}/job-a/{path}"))

    def save(self, attempt: int, step: int, *, damage: str = "none") -> SaveRef:
        """A save of two ranks, 3 bytes each."""
        ref = SaveRef(attempt, step)
        folder = f"{attempt}/{step:012d}"
        parts = (b"aaa", b"bbb")
        shards = tuple(Shard(r, m.shard_name(r), m.sha256_of(part), len(part)) for r, part in enumerate(parts))
        for rank, part in enumerate(parts):
            self.put(f"{folder}/{m.shard_name(rank)}", b"bXb" if damage == "flipped" and rank else part)
        if damage != "unfinished":
            self.put(f"{folder}/manifest.json", m.dump_manifest(Manifest("job-a", ref, shards, AT)))
        if damage == "cut":
            self.put(f"{folder}/rank-1.bin", b"b")
        return ref

    def base(self, attempt: int, ref: SaveRef | None) -> None:
        digest = m.sha256_of(b"") if ref else None
        self.put(f"{attempt}/base.json", m.dump_base(Base("job-a", attempt, ref, digest, AT)))


@pytest.fixture(scope="session")
def new_depot() -> type[Depot]:
    """To make one for every example of a property."""
    return Depot


@pytest.fixture(params=["folder", "object store"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Depot:
    return Depot(str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid.uuid4().hex}")
