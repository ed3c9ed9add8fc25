"""progress.json: rank 0's word on how far the attempt is.

Written from the training loop, not from a thread: a loop that hangs then shows as a file that grows old.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import SupportsFloat

from gpufleet.training.clock import Clock
from gpufleet.training.environment import Environment
from gpufleet.training.errors import try_or_note
from gpufleet.training.manifest import (
    Base,
    LastSave,
    Metric,
    Progress,
    State,
    dump_progress,
    parse_progress,
    progress_path,
)
from gpufleet.training.stores import Store


class Reporter:
    """Keeps the newest facts and writes them when it is time. On other ranks it writes nothing."""

    def __init__(self, store: Store, place: Environment, clock: Clock, facts: Progress) -> None:
        self._store, self._place, self._clock = store, place, clock
        self._facts = facts
        self._next_write = clock.monotonic()

    def step(self, step: int, metrics: Mapping[str, object]) -> None:
        plain = {name: _plain(value) for name, value in metrics.items()}
        self._facts = replace(self._facts, step=step, metrics={**self._facts.metrics, **plain})
        if self._clock.monotonic() >= self._next_write:
            self.write()

    def memory(self, peak_mib: int) -> None:
        """Told with the next write; it never shrinks."""
        most = max(peak_mib, self._facts.peak_memory_mib or 0)
        self._facts = replace(self._facts, peak_memory_mib=most)

    def saved(self, last: LastSave, request: int) -> None:
        step = max(self._facts.step, last.step)
        self._facts = replace(self._facts, step=step, last_save=last, save_error=None, request_done=request)
        self.write()

    def save_failed(self, why: str) -> None:
        self._facts = replace(self._facts, save_error=why)
        self.write()

    def end(self, state: State, step: int | None = None) -> None:
        self._facts = replace(self._facts, state=state, step=self._facts.step if step is None else step)
        self.write()

    def write(self) -> None:
        if self._place.rank != 0:
            return
        self._next_write = self._clock.monotonic() + self._place.progress_interval
        self._facts = replace(self._facts, at=self._clock.now())
        path = progress_path(self._place.job, self._place.attempt)
        try_or_note("write progress.json", lambda: self._store.write(path, dump_progress(self._facts)))


def read_own_progress(store: Store, place: Environment) -> Progress | None:
    """What this attempt said before a restart; a damaged file is worth no more than none."""
    path = progress_path(place.job, place.attempt)
    data = store.read(path)
    try:
        return parse_progress(data, path) if data else None
    except ValueError:
        return None


def first_facts(place: Environment, base: Base, total_steps: int | None, now: datetime) -> Progress:
    """What is known at the start."""
    return Progress(
        job=place.job,
        attempt=place.attempt,
        step=base.base.step if base.base else 0,
        total_steps=total_steps,
        started_at=now,
        at=now,
        base=base.base,
        skipped=base.skipped,
    )


def _plain(value: object) -> Metric:
    """Numbers of any library as floats. JSON has no NaN: a loss that blew up is null."""
    if value is None or isinstance(value, str):
        return value
    try:
        number = float(value) if isinstance(value, SupportsFloat) else math.nan
    except (TypeError, ValueError, OverflowError):  # an array of several numbers, say
        number = math.nan
    return number if math.isfinite(number) else None
