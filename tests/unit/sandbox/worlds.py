"""A sandbox inside the test: real rules and a real book, pretended processes and a clock that stands still."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.sandboxes import WORLD

from gpufleet.clock import ManualClock
from gpufleet.model.hardware import MigInstance
from gpufleet.model.snapshot import PodPlace, ShareOn, SliceOn
from gpufleet.model.workload import Container
from gpufleet.sandbox import caretaker
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.founding import found
from gpufleet.sandbox.records import Gang, GangAsk, Pod, PodAsk
from gpufleet.sandbox.runner import Sight, Stage, Start
from gpufleet.sandbox.site import Site
from gpufleet.sandbox.world import World

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PATIENT = Container(("python", "-c", "pass"))


@dataclass
class PretendedRunner:
    """Processes that do what a test says. Survives a pretended restart of the sandbox, as real ones do."""

    clock: ManualClock
    sights: dict[Path, Sight] = field(default_factory=dict)
    starts: Counter[Path] = field(default_factory=Counter)
    heard: list[tuple[Path, signal.Signals]] = field(default_factory=list)
    voided: set[Path] = field(default_factory=set)
    is_deaf: bool = False
    """Whether SIGTERM is ignored."""

    def start(self, start: Start) -> None:
        if start.home not in self.sights:
            self.starts[start.home] += 1
            self.sights[start.home] = Sight(Stage.RUNNING, self.clock.now())

    def void(self, home: Path) -> bool:
        """A process that is still starting has not claimed its start yet."""
        if self.look(home).stage not in (Stage.STARTING, Stage.VOID):
            return False
        self.sights.pop(home, None)
        self.voided.add(home)
        return True

    def look(self, home: Path) -> Sight:
        return self.sights.get(home, Sight(Stage.VOID))

    def signal(self, home: Path, number: signal.Signals) -> bool:
        sight = self.look(home)
        if sight.stage is not Stage.RUNNING:
            return False
        self.heard.append((home, number))
        if number is signal.SIGKILL or not self.is_deaf:
            self.end(home, 128 + number)
        return True

    def end(self, home: Path, code: int) -> None:
        sight = self.sights[home]
        self.sights[home] = replace(sight, stage=Stage.ENDED, ended_at=self.clock.now(), code=code)

    def forget(self, home: Path) -> None:
        self.sights.pop(home, None)

    def reap(self) -> None:
        """Nothing here is a real process."""

    @property
    def running(self) -> set[Path]:
        return {home for home, sight in self.sights.items() if sight.stage is Stage.RUNNING}


@dataclass
class PretendedSite:
    """The in-process state object with its two levers: time and processes."""

    site: Site
    clock: ManualClock
    runner: PretendedRunner

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        caretaker.advance(self.site)

    def pod(self, job: str, rank: int = 0, attempt: int = 1) -> Pod:
        return next(pod for pod in self.gang(job, attempt).pods if pod.ask.rank == rank)

    def gang(self, job: str, attempt: int = 1) -> Gang:
        return self.site.book.gangs[job, attempt]

    def end(self, job: str, code: int, rank: int = 0) -> None:
        self.runner.end(self.site.files(self.gang(job), rank).home, code)
        caretaker.advance(self.site)

    def restarted(self) -> PretendedSite:
        """What another process makes of the files on disk."""
        self.site.book.close()
        return settle(self.site.folder, self.clock, self.runner, wish())


def wish(**changes: Any) -> World:
    return World.model_validate({**WORLD, **changes})


def settle(folder: Path, clock: ManualClock, runner: PretendedRunner, world: World) -> PretendedSite:
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(folder, Book(folder / "state.db"), clock, runner, world.reclaims)
    found(site.book, world, clock.now())
    caretaker.resume(site)
    return PretendedSite(site, clock, runner)


def pretended(folder: Path, **changes: Any) -> PretendedSite:
    clock = ManualClock(T0)
    return settle(folder, clock, PretendedRunner(clock), wish(**changes))


def whole(node: str, *gpus: int, **host: Any) -> PodPlace:
    return PodPlace(0, 0, node, gpus=gpus, **host)


def slice_on(node: str, gpu: int, profile: str, start: int) -> PodPlace:
    return PodPlace(0, 0, node, slices=(SliceOn(gpu, MigInstance(start, profile)),))


def share_on(node: str, gpu: int, milli: int, memory_mib: int) -> PodPlace:
    return PodPlace(0, 0, node, shares=(ShareOn(gpu, milli, memory_mib),))


def ask(job: str, *places: PodPlace, attempt: int = 1, **changes: Any) -> GangAsk:
    """A gang with one pod for each place."""
    pods = tuple(
        PodAsk(f"{job}-{attempt}-{rank}", rank, replace(place, rank=rank), PATIENT, **changes)
        for rank, place in enumerate(places)
    )
    return GangAsk(job, attempt, "team-a", "ns-a", pods, timedelta(seconds=5))


def reasons(site: Site) -> Mapping[str, str]:
    return {pod.ask.name: f"{pod.phase}/{pod.reason}" for gang in site.book.gangs.values() for pod in gang.pods}
