"""Marker and manifest: what says that one rank's part, and then the whole save, is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gpufleet.training.manifest.fields import VERSION, Fields, dump_object, instant_text
from gpufleet.training.manifest.paths import SaveRef, sha256_of, shard_name

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a save. `size` is in bytes."""

    rank: int
    file: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Marker:
    """A rank's word that its part is written, or, with an `error`, that it will not come.

    `request` is the newest request to save that this rank had seen, so that rank 0 knows which are answered.
    """

    job: str
    ref: SaveRef
    shard: Shard
    request: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Written last, by rank 0: every part of the save with its size and hash."""

    job: str
    ref: SaveRef
    ranks: tuple[Shard, ...]
    created_at: datetime

    @property
    def attempt(self) -> int:
        return self.ref.attempt

    @property
    def step(self) -> int:
        return self.ref.step

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def size(self) -> int:
        """Bytes of all parts together."""
        return sum(shard.size for shard in self.ranks)

    @property
    def digest(self) -> str:
        """Hash of all the rest; it names this very save."""
        return sha256_of(dump_object(_manifest_values(self)))


def dump_manifest(manifest: Manifest) -> bytes:
    return dump_object({**_manifest_values(manifest), "digest": manifest.digest})


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Raises ValueError when a single byte is not the one that was written."""
    fields = Fields.parse(data, where).known_version()
    manifest = Manifest(
        job=fields.text("job"),
        ref=_ref(fields),
        ranks=tuple(_shard(shard, where) for shard in fields.groups("ranks")),
        created_at=fields.instant("created_at"),
    )
    world_size = fields.whole("world_size", least=1)
    if [shard.rank for shard in manifest.ranks] != list(range(world_size)):
        raise ValueError(f"{where}: 'ranks' must list the ranks 0 to {world_size - 1} once each, in order.")
    if fields.text("digest") != manifest.digest:
        raise ValueError(f"{where} was changed after it was written: its digest does not match.")
    if dump_manifest(manifest) != data:
        raise ValueError(f"{where} was changed after it was written: it is not spelled as we write it.")
    return manifest


def dump_marker(marker: Marker) -> bytes:
    values = {"version": VERSION, "job": marker.job, **_ref_values(marker.ref), **_shard_values(marker.shard)}
    return dump_object({**values, "request": marker.request, "error": marker.error})


def parse_marker(data: bytes, where: str) -> Marker:
    fields = Fields.parse(data, where).known_version()
    return Marker(
        job=fields.text("job"),
        ref=_ref(fields),
        shard=_shard(fields, where),
        request=fields.whole("request"),
        error=fields.text_or_none("error"),
    )


def _manifest_values(manifest: Manifest) -> Mapping[str, object]:
    return {
        "version": VERSION,
        "job": manifest.job,
        **_ref_values(manifest.ref),
        "world_size": manifest.world_size,
        "ranks": [_shard_values(shard) for shard in manifest.ranks],
        "created_at": instant_text(manifest.created_at),
    }


def _ref(fields: Fields) -> SaveRef:
    return SaveRef(fields.whole("attempt", least=1), fields.whole("step"))


def _ref_values(ref: SaveRef) -> Mapping[str, object]:
    return {"attempt": ref.attempt, "step": ref.step}


def _shard(fields: Fields, where: str) -> Shard:
    shard = Shard(fields.whole("rank"), fields.text("file"), fields.text("sha256"), fields.whole("bytes"))
    # The name is fixed by the rank, so no manifest can point outside its own folder.
    if shard.file != shard_name(shard.rank):
        raise ValueError(f"{where}: the file of rank {shard.rank} must be '{shard_name(shard.rank)}'.")
    if not _SHA256.fullmatch(shard.sha256):
        raise ValueError(f"{where}: 'sha256' of rank {shard.rank} must be 64 hexadecimal digits.")
    return shard


def _shard_values(shard: Shard) -> Mapping[str, object]:
    return {"rank": shard.rank, "file": shard.file, "sha256": shard.sha256, "bytes": shard.size}
