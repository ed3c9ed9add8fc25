"""Is a save complete, and which one to resume from: one rule for the job and for its orchestrator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpufleet.training.manifest.paths import (
    MANIFEST_NAME,
    SaveRef,
    attempt_folder,
    attempts_among,
    job_folder,
    manifest_path,
    save_folder,
    steps_among,
)
from gpufleet.training.manifest.reports import Skipped
from gpufleet.training.manifest.saves import Manifest, Shard, parse_manifest


class Files(Protocol):
    """Reading a store, by paths below its root.

    What is not there is said as below; any other trouble (access, network) is raised, because
    a save that cannot be read just now is not a save that is not there.
    """

    def names(self, folder: str) -> list[str]:
        """The entries of *folder*; empty when there is none."""
        ...

    def read(self, path: str) -> bytes | None: ...

    def size(self, path: str) -> int | None: ...

    def sha256(self, path: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at one save found: its manifest when it is complete, else why it is not."""

    ref: SaveRef
    path: str
    manifest: Manifest | None
    why: str = ""


def judge(files: Files, job: str, ref: SaveRef, *, verify: bool) -> Verdict:
    """Look at one save; *verify* also reads every part and compares its hash."""
    path = save_folder(job, ref)
    data = files.read(manifest_path(job, ref))
    if data is None:
        return Verdict(ref, path, None, f"{path} has no {MANIFEST_NAME}: it was never finished.")
    try:
        manifest = parse_manifest(data, manifest_path(job, ref))
    except ValueError as error:
        return Verdict(ref, path, None, str(error))
    if (manifest.job, manifest.ref) != (job, ref):
        return Verdict(ref, path, None, f"{manifest_path(job, ref)} is that of another save.")
    faults = (_fault(files, f"{path}/{shard.file}", shard, verify=verify) for shard in manifest.ranks)
    why = next(filter(None, faults), "")
    return Verdict(ref, path, None if why else manifest, why)


def _fault(files: Files, path: str, shard: Shard, *, verify: bool) -> str:
    size = files.size(path)
    if size is None:
        return f"{path} is missing."
    if size != shard.size:
        return f"{path} has {size} bytes; its manifest says {shard.size}."
    if verify and files.sha256(path) != shard.sha256:
        return f"{path} does not match its sha256: it was damaged after it was written."
    return ""


def saves_of(files: Files, job: str, *, below: int | None = None) -> Iterator[SaveRef]:
    """Every save folder of *job*, complete or not, newest first; only of attempts *below* when given."""
    for attempt in attempts_among(files.names(job_folder(job))):
        if below is None or attempt < below:
            for step in steps_among(files.names(attempt_folder(job, attempt))):
                yield SaveRef(attempt, step)


def choose(files: Files, job: str, *, below: int | None, verify: bool) -> tuple[Verdict | None, tuple[Skipped, ...]]:
    """The newest complete save, and those passed over on the way to it."""
    skipped: list[Skipped] = []
    for ref in saves_of(files, job, below=below):
        verdict = judge(files, job, ref, verify=verify)
        if verdict.manifest:
            return verdict, tuple(skipped)
        skipped.append(Skipped(verdict.path, verdict.why))
    return None, tuple(skipped)
