"""What a job has in its checkpoint store. *url* is the root; nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from gpufleet.checkpoints.files import StoreFiles
from gpufleet.errors import Invalid
from gpufleet.training.manifest import (
    Base,
    Progress,
    SaveRef,
    Verdict,
    attempt_folder,
    attempts_among,
    base_path,
    choose,
    job_folder,
    judge,
    parse_base,
    parse_progress,
    progress_path,
    saves_of,
    steps_among,
)


@dataclass(frozen=True, slots=True)
class Save:
    """One save and the verdict on it. `why` says what is wrong; `size` is in bytes, of what lies there."""

    ref: SaveRef
    path: str
    is_complete: bool
    why: str
    size: int
    world_size: int | None
    created_at: datetime | None

    @property
    def attempt(self) -> int:
        return self.ref.attempt

    @property
    def step(self) -> int:
        return self.ref.step


def list_saves(url: str, job: str, *, verify: bool = False) -> tuple[Save, ...]:
    """Every save of *job*, newest first (attempt, then step); *verify* reads every part to compare its hash."""
    with well_named():
        files = StoreFiles(url)
        return tuple(_save(files, judge(files, job, ref, verify=verify)) for ref in saves_of(files, job))


def newest_complete(url: str, job: str, *, verify: bool = True, below: int | None = None) -> Save | None:
    """What an attempt would resume from now, by the job's own rule; *below* leaves out later attempts."""
    with well_named():
        files = StoreFiles(url)
        verdict, _ = choose(files, job, below=below, verify=verify)
        return _save(files, verdict) if verdict else None


def read_progress(url: str, job: str, attempt: int) -> Progress | None:
    """How far an attempt says it is; None before it has said anything. Raises Invalid for a damaged file."""
    with well_named():
        files, path = StoreFiles(url), progress_path(job, attempt)
        data = files.read(path)
        return parse_progress(data, files.location(path)) if data is not None else None


def read_base(url: str, job: str, attempt: int) -> Base | None:
    """What an attempt resumed from; None before it has chosen. Raises Invalid for a damaged file."""
    with well_named():
        files, path = StoreFiles(url), base_path(job, attempt)
        data = files.read(path)
        return parse_base(data, files.location(path)) if data is not None else None


def sizes(url: str, job: str) -> dict[int, int]:
    """Bytes that each attempt holds, newest first; half-written saves included."""
    with well_named():
        files = StoreFiles(url)
        return {attempt: _held(files, job, attempt) for attempt in attempts_among(files.names(job_folder(job)))}


def folder_size(files: StoreFiles, folder: str) -> int:
    return sum(entry.size for entry in files.entries(folder))


@contextmanager
def well_named() -> Iterator[None]:
    """A bad job id, attempt or file is the caller's to see: ValueError becomes Invalid."""
    try:
        yield
    except ValueError as error:
        raise Invalid(str(error)) from error


def _held(files: StoreFiles, job: str, attempt: int) -> int:
    folder = attempt_folder(job, attempt)
    saves = (f"{folder}/{name}" for name in files.names(folder) if steps_among([name]))
    return folder_size(files, folder) + sum(folder_size(files, save) for save in saves)


def _save(files: StoreFiles, verdict: Verdict) -> Save:
    manifest = verdict.manifest
    return Save(
        ref=verdict.ref,
        path=verdict.path,
        is_complete=manifest is not None,
        why=verdict.why,
        size=folder_size(files, verdict.path),
        world_size=manifest.world_size if manifest else None,
        created_at=manifest.created_at if manifest else None,
    )
