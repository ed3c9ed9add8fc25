"""The environment of a rank process, read once: the contract between the orchestrator and the job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpufleet.training.manifest import job_folder

INTERVAL: Final = 600.0
"""Seconds between saves when nothing else is said: about the Young/Daly optimum of a small gang on spot."""
KEEP: Final = 3
PROGRESS_INTERVAL: Final = 5.0


@dataclass(frozen=True, slots=True)
class Environment:
    """Who this rank is, where it saves and how often. `url` is None for a job that saves nothing."""

    job: str
    attempt: int
    rank: int
    world_size: int
    url: str | None
    interval: float = INTERVAL
    keep: int = KEEP
    control_file: Path | None = None
    progress_interval: float = PROGRESS_INTERVAL


def read_environment(environ: Mapping[str, str]) -> Environment | None:
    """None outside of gpufleet; raises ValueError naming the variable that is wrong."""
    if not environ.get("GPUFLEET_JOB"):
        return None
    world_size = _whole(environ, "WORLD_SIZE", 1, least=1)
    rank = _whole(environ, "RANK", 0, least=0)
    if rank >= world_size:
        raise ValueError(f"RANK is {rank}, but WORLD_SIZE is {world_size}: ranks count from 0.")
    control = environ.get("GPUFLEET_CONTROL_FILE")
    return Environment(
        job=job_folder(environ["GPUFLEET_JOB"]),
        attempt=_whole(environ, "GPUFLEET_ATTEMPT", None, least=1),
        rank=rank,
        world_size=world_size,
        url=environ.get("GPUFLEET_CHECKPOINT_URL") or None,
        interval=_seconds(environ, "GPUFLEET_CHECKPOINT_INTERVAL", INTERVAL),
        keep=_whole(environ, "GPUFLEET_CHECKPOINT_KEEP", KEEP, least=1),
        control_file=Path(control) if control else None,
        progress_interval=_seconds(environ, "GPUFLEET_PROGRESS_INTERVAL", PROGRESS_INTERVAL),
    )


def _whole(environ: Mapping[str, str], name: str, otherwise: int | None, *, least: int) -> int:
    text = environ.get(name) or ("" if otherwise is None else str(otherwise))
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; it is '{text}'.")
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, otherwise: float) -> float:
    text = environ.get(name) or str(otherwise)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{name} must be a number of seconds of at least 0; it is '{text}'.")
    return seconds
