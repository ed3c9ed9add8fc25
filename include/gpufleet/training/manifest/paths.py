"""Where each file lies below the root of the store, and how it is hashed.

<job>/<attempt>/base.json                        what this attempt resumes from
<job>/<attempt>/progress.json                    how far it is
<job>/<attempt>/<step, 12 digits>/rank-<r>.bin   one rank's part of a save
<job>/<attempt>/<step, 12 digits>/rank-<r>.json  its marker
<job>/<attempt>/<step, 12 digits>/manifest.json  written last: the save is complete
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

MANIFEST_NAME: Final = "manifest.json"
BASE_NAME: Final = "base.json"
PROGRESS_NAME: Final = "progress.json"

_STEP_DIGITS: Final = 12
_STEP: Final = re.compile(rf"[0-9]{{{_STEP_DIGITS}}}", re.ASCII)
_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class SaveRef:
    """Names one save of a job. The order is that of choosing: a later attempt first of all, then a later step."""

    attempt: int
    step: int


def job_folder(job: str) -> str:
    """A job is one folder; raises ValueError for an id that could lead out of it."""
    if not job or job in {".", ".."} or "/" in job or "\\" in job or "\0" in job:
        raise ValueError(f"The job id '{job}' cannot name a folder: it is empty or has a slash in it.")
    return job


def attempt_folder(job: str, attempt: int) -> str:
    if attempt < 1:
        raise ValueError(f"Attempts count from 1; {attempt} is none.")
    return f"{job_folder(job)}/{attempt}"


def save_folder(job: str, ref: SaveRef) -> str:
    if not 0 <= ref.step < 10**_STEP_DIGITS:
        raise ValueError(f"A step lies between 0 and 10^{_STEP_DIGITS}; {ref.step} does not.")
    return f"{attempt_folder(job, ref.attempt)}/{ref.step:0{_STEP_DIGITS}d}"


def base_path(job: str, attempt: int) -> str:
    return f"{attempt_folder(job, attempt)}/{BASE_NAME}"


def progress_path(job: str, attempt: int) -> str:
    return f"{attempt_folder(job, attempt)}/{PROGRESS_NAME}"


def manifest_path(job: str, ref: SaveRef) -> str:
    return f"{save_folder(job, ref)}/{MANIFEST_NAME}"


def shard_name(rank: int) -> str:
    return f"rank-{rank}.bin"


def marker_name(rank: int) -> str:
    return f"rank-{rank}.json"


def attempts_among(names: Iterable[str]) -> list[int]:
    """The attempts among the entries of a job's folder, newest first."""
    return sorted((int(name) for name in names if _ATTEMPT.fullmatch(name)), reverse=True)


def steps_among(names: Iterable[str]) -> list[int]:
    """The steps among the entries of an attempt's folder, newest first."""
    return sorted((int(name) for name in names if _STEP.fullmatch(name)), reverse=True)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(file: BinaryIO) -> str:
    """By pieces: a shard may be larger than memory."""
    running = hashlib.sha256()
    while piece := file.read(_CHUNK):
        running.update(piece)
    return running.hexdigest()
