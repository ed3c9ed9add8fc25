"""Where the sandbox stands: its book, clocks, processes and folders, handed to every verb."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gpufleet.clock import Clock
from gpufleet.errors import Invalid
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.environment import PodFiles
from gpufleet.sandbox.holdings import Holdings
from gpufleet.sandbox.records import Gang, LedgerRate
from gpufleet.sandbox.runner import Runner
from gpufleet.sandbox.world import ReclaimWish


@dataclass(slots=True)
class Site:
    """`lock` is held for a whole verb: the world changes one request at a time."""

    folder: Path
    book: Book
    clock: Clock
    runner: Runner
    reclaims: tuple[ReclaimWish, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)
    _files: dict[tuple[str, int, int], PodFiles] = field(default_factory=dict)

    def now(self) -> datetime:
        return self.clock.now()

    def ledger_now(self) -> datetime:
        return self.book.facts.rate.at(self.now())

    def move_ledger(self, to: datetime) -> None:
        """Forward only: use that was metered stays true."""
        now, facts = self.now(), self.book.facts
        shows = facts.rate.at(now)
        if to < shows:
            raise Invalid(f"The ledger's clock shows {shows.isoformat()} and never goes back to {to.isoformat()}.")
        self.book.set_facts(replace(facts, rate=LedgerRate(now, to, facts.rate.factor)))

    def held(self) -> Holdings:
        return Holdings.of(self.book.live_gangs())

    def files(self, gang: Gang, rank: int) -> PodFiles:
        """Remembered: every look at every pod asks, and building paths is dear."""
        job, attempt = gang.ask.job, gang.ask.attempt
        known = self._files.get((job, attempt, rank))
        if known is None:
            known = PodFiles.at(self.attempt_folder(gang) / str(rank), self.log(job, attempt, rank))
            self._files[job, attempt, rank] = known
        return known

    def forget_files(self, gang: Gang) -> None:
        for pod in gang.pods:
            self._files.pop((gang.ask.job, gang.ask.attempt, pod.ask.rank), None)

    def attempt_folder(self, gang: Gang) -> Path:
        return self.folder / "pods" / gang.ask.job / str(gang.ask.attempt)

    def log(self, job: str, attempt: int, rank: int) -> Path:
        return self.folder / "logs" / job / str(attempt) / f"{rank}.log"

    def promised_ports(self) -> set[int]:
        live = self.book.live_gangs()
        return {gang.master_port for gang in live} | {pod.serve_port for gang in live for pod in gang.pods}
