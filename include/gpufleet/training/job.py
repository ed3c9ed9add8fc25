"""One rank of a job that has a checkpoint store: what `Run` hands its work to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpufleet.training.bases import await_base, choose_base, read_part, saved_world_size
from gpufleet.training.clock import Clock, Patience
from gpufleet.training.environment import Environment
from gpufleet.training.errors import in_words, note
from gpufleet.training.manifest import Base, LastSave, State
from gpufleet.training.reporting import Reporter, first_facts, read_own_progress
from gpufleet.training.saving import PeerAlive, Saver
from gpufleet.training.stores import Store
from gpufleet.training.watching import StopFlag, Watch

STOPPED: Final = 143
"""128 + SIGTERM: what a shell says of a process that SIGTERM ended, so no one takes it for a failure of the job."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds. `start` covers rank 0 hashing a large base; `save` stays under the 600 s after which NCCL gives up."""

    start: float = 1800.0
    save: float = 300.0


WAITS: Final = Waits()


class Job:
    """Restore, save, report; every trouble of the store after the start is noted and survived."""

    def __init__(
        self, store: Store, place: Environment, stop: StopFlag, total_steps: int | None, waits: Waits, clock: Clock
    ) -> None:
        self._store, self._place, self._stop, self._clock = store, place, stop, clock
        before = read_own_progress(store, place)
        self._saver = Saver(store, place, clock, wait=waits.save)
        self._saver.clear_leftovers()
        self.base = self._settle_base(waits.start)
        facts = first_facts(place, self.base, total_steps, clock.now())
        if before:
            facts = replace(
                facts,
                last_save=before.last_save,
                request_done=before.request_done,
                peak_memory_mib=before.peak_memory_mib,
            )
        self._watch = Watch(place.interval, place.control_file, facts.request_done, clock)
        self._reporter = Reporter(store, place, clock, facts)
        self._reporter.write()

    def restore(self, rank: int | None) -> bytes | None:
        return read_part(self._store, self._place, self.base, rank)

    def saved_world_size(self) -> int | None:
        return saved_world_size(self._store, self._place, self.base)

    def wants_save(self) -> bool:
        return self._watch.wants_save()

    def save(self, step: int, data: bytes, peer_alive: PeerAlive) -> bool:
        began, request = self._clock.monotonic(), self._watch.seen
        try:
            saved = self._saver.save(step, data, request, peer_alive)
        except Exception as error:  # an SDK's own types too: no failed save may end training
            note(f"the save of step {step} failed: {in_words(error)}")
            self._watch.failed(request)
            self._reporter.save_failed(in_words(error))
            return False
        self._watch.saved(saved.request)
        last = LastSave(step, self._clock.now(), round(self._clock.monotonic() - began, 3), saved.size)
        self._reporter.saved(last, self._watch.done)
        return True

    def progress(self, step: int, metrics: Mapping[str, object]) -> None:
        self._reporter.step(step, metrics)

    def memory(self, peak_mib: int) -> None:
        self._reporter.memory(peak_mib)

    def end(self, state: State, step: int | None = None) -> None:
        self._reporter.end(state, step)

    def publish(self, name: str, data: bytes) -> str:
        path = f"{self._place.job}/{name}"
        self._store.write(path, data)
        return self._store.location(path)

    def _settle_base(self, wait: float) -> Base:
        if self._place.rank == 0:
            return choose_base(self._store, self._place, self._clock)
        return await_base(self._store, self._place, Patience.of(wait, self._clock), self._leave_when_stopped)

    def _leave_when_stopped(self) -> None:
        if self._stop.is_raised:
            raise SystemExit(STOPPED)
