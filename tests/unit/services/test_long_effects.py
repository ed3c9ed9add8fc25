"""Effects that somebody else carries out slowly: they are asked for until done; mere trouble is given up some day."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.obliging import Obliging
from tests.sandboxes import PATIENCE, eventually

from gpufleet.errors import Refused, Temporary, UnderWay
from gpufleet.model.hardware import MigInstance
from gpufleet.services.apply_operations import MAX_TRIES, apply_operations
from gpufleet.services.fleet import Fleet
from gpufleet.store import operations
from gpufleet.store.database import Database


@dataclass
class Clock:
    at: datetime = datetime(2026, 3, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Slow(Obliging):
    """Cuts GPUs as slowly as a MIG manager does: each look says `says`, then it is done, or `ends`."""

    def __init__(self, says: Temporary, looks: int, ends: Refused | None = None) -> None:
        super().__init__(1)
        self.says, self.looks, self.ends = says, looks, ends

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        self.looks -= 1
        if self.looks >= 0:
            raise self.says
        if self.ends:
            raise self.ends


def outcome(database: Database, home: Path, cluster: Slow, minutes: int) -> tuple[str | None, timedelta]:
    """State of a repartition that is tried for so long, and when it got there."""
    clock = Clock()
    fleet = Fleet("f", home, database, {"main": cluster}, {}, clock, str(home))
    args = {"cluster": "main", "node": "n0", "gpu": 0, "destroy": [], "create": [["3g.40gb", 4]]}
    with database.write() as connection:
        operations.decide(connection, clock.at, kind="repartition", target="gpu/n0/0", name="r", args=args)
    for second in range(0, 60 * minutes, 3):
        clock.at = Clock.at + timedelta(seconds=second)
        apply_operations(fleet)
        with database.read() as connection:
            if (state := operations.state_of(connection, "r")) not in operations.OPEN:
                return state, clock.at - Clock.at
    return None, timedelta(minutes=minutes)


WORKS = UnderWay("node n0: the MIG manager is pending", retry_after=3.0)


def test_a_mig_manager_that_works_for_half_an_hour_is_waited_for(database: Database, tmp_path: Path) -> None:
    state, took = outcome(database, tmp_path, Slow(WORKS, looks=500), minutes=40)
    assert state == "done"
    assert took <= timedelta(minutes=26)


def test_its_own_refusal_ends_it(database: Database, tmp_path: Path) -> None:
    state, _ = outcome(database, tmp_path, Slow(WORKS, 30, Refused("the MIG manager failed")), minutes=10)
    assert state == "failed"


@pytest.mark.parametrize("looks", [1, MAX_TRIES - 1])
def test_trouble_that_passes_is_sat_out(database: Database, tmp_path: Path, looks: int) -> None:
    assert outcome(database, tmp_path, Slow(Temporary("no answer"), looks), minutes=15)[0] == "done"


def test_trouble_that_does_not_pass_is_given_up(database: Database, tmp_path: Path) -> None:
    assert outcome(database, tmp_path, Slow(Temporary("no answer"), MAX_TRIES + 5), minutes=15)[0] == "failed"


class Stuck(Obliging):
    """Does not answer about GPU 0 until it is told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go_on = threading.Event()

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        if gpu == 0:
            assert self.go_on.wait(PATIENCE)


def test_one_that_does_not_answer_keeps_no_other_result_from_being_written(database: Database, tmp_path: Path) -> None:
    cluster, now = Stuck(), Clock.at
    fleet = Fleet("f", tmp_path, database, {"main": cluster}, {}, Clock(), str(tmp_path))
    with database.write() as connection:
        for gpu in range(3):
            args = {"cluster": "main", "node": "n0", "gpu": gpu, "destroy": [], "create": []}
            operations.decide(connection, now, kind="repartition", target=f"gpu/{gpu}", name=str(gpu), args=args)

    def states() -> list[str]:
        with database.read() as connection:
            return [state for _, state in sorted(operations.states_of(connection, "012").items())]

    executor = threading.Thread(target=apply_operations, args=(fleet,))
    executor.start()
    try:
        eventually(lambda: states() == ["leased", "done", "done"])
    finally:
        cluster.go_on.set()
        executor.join(PATIENCE)
    assert states() == ["done", "done", "done"]
