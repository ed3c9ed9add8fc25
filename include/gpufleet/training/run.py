"""What a trainer calls. See docs/training.md for the loop around it."""

from __future__ import annotations

import math
import os
from operator import index
from typing import NoReturn

from gpufleet.training.clock import CLOCK, Clock
from gpufleet.training.environment import Environment, read_environment
from gpufleet.training.errors import CheckpointError, in_words
from gpufleet.training.job import STOPPED, WAITS, Job, Waits
from gpufleet.training.manifest import SaveRef, State
from gpufleet.training.saving import PeerAlive
from gpufleet.training.stores import open_store
from gpufleet.training.watching import StopFlag, Wish


def start(total_steps: int | None = None) -> Run:
    """Read the environment, listen to SIGTERM, and settle what to resume from. Call it once, in the main thread.

    Without a gpufleet environment the run is a plain local one: nothing is restored, saved or reported.
    Raises ValueError for an environment that is wrong, CheckpointError when the base cannot be settled.
    """
    return Run(read_environment(os.environ), StopFlag().install(), total_steps=total_steps)


def _begin(place: Environment, url: str, stop: StopFlag, total_steps: int | None, waits: Waits, clock: Clock) -> Job:
    """At the start trouble with the store does end the process: going on could mean to start afresh by mistake."""
    try:
        return Job(open_store(url), place, stop, total_steps, waits, clock)
    except (CheckpointError, ValueError):
        raise
    except Exception as error:  # an SDK's own types too
        raise CheckpointError(f"The checkpoint store {url} cannot be used: {in_words(error)}") from error


class Run:
    """One rank of one attempt. A *step* always counts the steps done."""

    def __init__(
        self,
        place: Environment | None,
        stop: StopFlag,
        *,
        total_steps: int | None = None,
        waits: Waits = WAITS,
        clock: Clock = CLOCK,
    ) -> None:
        self._stop = stop
        self._job: Job | None = None
        if place and place.url:
            self._job = _begin(place, place.url, stop, total_steps, waits, clock)

    @property
    def base(self) -> SaveRef | None:
        """The save this attempt resumes from."""
        return self._job.base.base if self._job else None

    @property
    def first_step(self) -> int:
        """The steps done by the base; 0 when there is none."""
        return self.base.step if self.base else 0

    @property
    def saved_world_size(self) -> int | None:
        """How many ranks wrote the base."""
        return self._job.saved_world_size() if self._job else None

    def restore(self, rank: int | None = None) -> bytes | None:
        """This rank's part of the base (or that of *rank*), verified; None when there is none.

        Raises WorldSizeChanged when the base is of another number of ranks and no *rank* is named.
        """
        return self._job.restore(rank) if self._job else None

    def wish(self) -> Wish:
        """What this rank wants after this step. All ranks must act on the largest wish of all, or they part ways."""
        if self._stop.is_raised:
            return Wish.STOP
        return Wish.SAVE if self._job and self._job.wants_save() else Wish.NOTHING

    def save(self, step: int, data: bytes, *, peer_alive: PeerAlive = lambda rank: True) -> bool:
        """Write this rank's part; rank 0 waits for all and completes the save. Never raises for the store's sake.

        Returns whether this rank's share of it went well. While rank 0 waits it asks *peer_alive* of each rank whose
        part is not there yet, and gives up when one is gone.
        """
        return self._job.save(index(step), data, peer_alive) if self._job else False

    def progress(self, step: int, **metrics: object) -> None:
        """Say how far it is; written at most every GPUFLEET_PROGRESS_INTERVAL seconds, so call it every step."""
        if self._job:
            self._job.progress(index(step), metrics)

    def memory(self, peak_mib: float) -> None:
        """Say the most GPU memory held so far, in MiB, on the rank that held most: rank 0 hands it on.

        What it learns from this, gpufleet asks for the next time (docs/formats-memory.md). Raises ValueError for what
        is no number of MiB.
        """
        if not 0 <= peak_mib < math.inf:
            raise ValueError(f"A peak of memory is a number of MiB of at least 0; it is {peak_mib}.")
        if self._job:
            self._job.memory(math.ceil(peak_mib))

    def publish(self, name: str, data: bytes) -> str | None:
        """Put a result beside the attempts, where no clean-up goes; returns where it is. Raises what the store does."""
        if not name or "/" in name or name.isdecimal():
            raise ValueError(f"A result is one file beside the attempts; '{name}' cannot be its name.")
        return self._job.publish(name, data) if self._job else None

    def finish(self, step: int) -> None:
        """All work is done."""
        if self._job:
            self._job.end(State.FINISHED, index(step))

    def stopped(self) -> NoReturn:
        """Leave after the save that a STOP asked for, with the status by which the orchestrator knows it: 143."""
        if self._job:
            self._job.end(State.STOPPED)
        raise SystemExit(STOPPED)
