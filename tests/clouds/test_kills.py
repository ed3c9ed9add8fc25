"""kill -9 in the middle of buying, at every request and around every record: nothing is bought twice, nothing is forgotten.

Each story counts the requests of an undisturbed purchase, then kills before and after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from sqlalchemy import select
from tests.aws_worlds import aws_world
from tests.azure_worlds import azure_world
from tests.fronts import Faults, KilledHere, killing
from tests.gcp_worlds import gcp_world

from gpufleet.clock import ManualClock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.base import Cloud
from gpufleet.services.apply_operations import apply_operations
from gpufleet.services.fleet import Fleet
from gpufleet.services.look_at_clouds import observe_clouds
from gpufleet.store import operations, world
from gpufleet.store import schema as t
from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate

WAY = {"aws": aws_world, "gcp": gcp_world, "azure": azure_world}
REQUESTS = {"aws": 3, "gcp": 6, "azure": 6}
"""As many as a purchase takes at most, the giving back of a part included; a point past its end disturbs nothing."""
POINTS = [
    pytest.param(kind, number, after, id=f"{kind}-{'after' if after else 'before'}-{number}")
    for kind, most in REQUESTS.items()
    for number in range(1, most + 1)
    for after in (False, True)
]


class World(Protocol):
    """What the three test worlds have in common."""

    faults: Faults
    short_by: int
    stock: int

    def running(self) -> list[str]: ...

    def cloud(self) -> Cloud: ...


@dataclass
class Buyer:
    """A fleet with one cloud and a clock of its own."""

    world: World
    fleet: Fleet
    clock: ManualClock
    numbers: int = field(default=0)

    def decide(self, count: int = 2) -> str:
        """Write a purchase down, as plan_capacity does."""
        self.numbers += 1
        token = f"f1-job-{self.numbers}-{id(self)}"
        args = {"cloud": "it", "offering": "spot-a", "count": count, "token": token, "job": "job"}
        with self.fleet.database.write() as connection:
            operations.decide(
                connection, self.clock.now(), kind="buy", target="buy/job", name=f"buy/{token}", args=args
            )
        return token

    def carry_out(self, token: str) -> str:
        """A new process, with clients of its own, comes round until the purchase is settled."""
        self.fleet.clouds["it"] = self.world.cloud()
        for _ in range(30):
            apply_operations(self.fleet)
            observe_clouds(self.fleet)
            with self.fleet.database.read() as connection:
                state = operations.state_of(connection, f"buy/{token}")
            if state not in operations.OPEN:
                return str(state)
            self.clock.advance(timedelta(seconds=40))
        raise AssertionError("the purchase is never settled")

    def clean(self, rounds: int = 5) -> None:
        """What reconciling still has to do, it does."""
        for _ in range(rounds):
            self.clock.advance(timedelta(minutes=3))
            observe_clouds(self.fleet)
            apply_operations(self.fleet)
        observe_clouds(self.fleet)

    def rows(self) -> list[str]:
        with self.fleet.database.read() as connection:
            return [row.name for row in world.instances(connection)]

    def give_all_back(self) -> None:
        for name in self.world.running():
            self.fleet.clouds["it"].terminate(name)
        self.clean(rounds=1)


@contextmanager
def buyer_of(kind: str, home: Path) -> Iterator[Buyer]:
    with WAY[kind]() as found:
        clock = ManualClock(datetime.now(UTC))
        database = Database(f"sqlite:///{home / 'fleet.db'}")
        migrate(database)
        fleet = Fleet("f1", home, database, {}, {"it": found.cloud()}, clock, "")
        try:
            yield Buyer(found, fleet, clock)
        finally:
            database.dispose()


@pytest.fixture(scope="module", params=list(WAY))
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buyer]:
    with buyer_of(request.param, tmp_path_factory.mktemp(request.param)) as buyer:
        yield buyer


@pytest.fixture
def buyer(shared: Buyer) -> Iterator[Buyer]:
    shared.world.faults.clear()
    shared.world.short_by, shared.world.stock = 0, 3
    yield shared
    shared.world.faults.clear()
    shared.give_all_back()
    assert shared.world.running() == []


def die_at(patch: pytest.MonkeyPatch, number: int, *, after: bool) -> Callable[[], int]:
    """The process dies at its n-th request, before it is sent or after it was answered. Returns how many were made."""
    asked, real = [0], Asking.once

    def once(self: Asking, call: Callable[[], Any]) -> Any:
        asked[0] += 1
        return real(self, killing(call, after=after) if asked[0] == number else call)

    patch.setattr(Asking, "once", once)
    return lambda: asked[0]


def killed_while_buying(buyer: Buyer, number: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        asked = die_at(patch, number, after=after)
        try:
            apply_operations(buyer.fleet)
        except KilledHere:
            assert asked() == number
    buyer.clock.advance(timedelta(seconds=40))


@pytest.mark.parametrize(("shared", "number", "after"), POINTS, indirect=["shared"])
def test_killed_at_any_request_two_are_bought_once(
    buyer: Buyer, number: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = buyer.decide()
    killed_while_buying(buyer, number, after, monkeypatch)
    assert buyer.carry_out(token) == "done"
    assert len(buyer.world.running()) == 2
    assert buyer.rows() == buyer.world.running()


@pytest.mark.parametrize(("shared", "number", "after"), POINTS, indirect=["shared"])
def test_killed_at_any_request_part_of_a_gang_is_given_back(
    buyer: Buyer, number: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buyer.world.short_by = 1
    token = buyer.decide()
    killed_while_buying(buyer, number, after, monkeypatch)
    state = buyer.carry_out(token)
    buyer.clean()
    # done with none: it was given back whole before the kill, and the cloud has forgotten it
    assert len(buyer.world.running()) in ((0,) if state == "failed" else (0, 2))
    assert buyer.rows() == buyer.world.running()


@pytest.mark.parametrize("step", ["put_instances", "record_all"])
def test_killed_between_the_purchase_and_its_record_the_next_one_adopts(
    buyer: Buyer, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = buyer.decide()
    of = world if step == "put_instances" else operations
    with monkeypatch.context() as patch:
        patch.setattr(of, step, killing(getattr(of, step), after=False))
        for _ in range(5):  # a cloud that takes its time is asked again
            try:
                apply_operations(buyer.fleet)
            except KilledHere:
                break
            buyer.clock.advance(timedelta(seconds=40))
    buyer.clock.advance(timedelta(seconds=40))
    assert len(buyer.world.running()) == 2
    assert buyer.carry_out(token) == "done"
    assert len(buyer.world.running()) == 2
    assert buyer.rows() == buyer.world.running()


def test_a_machine_without_a_purchase_goes_back_and_one_that_vanished_is_closed(buyer: Buyer) -> None:
    (stray,) = buyer.fleet.clouds["it"].launch("spot-a", 1, token=f"stray-{id(buyer)}")
    observe_clouds(buyer.fleet)
    assert buyer.rows() == [stray.name]
    apply_operations(buyer.fleet)
    assert buyer.world.running() == [stray.name]  # its row may still be on its way
    buyer.clean()
    assert (buyer.world.running(), buyer.rows()) == ([], [])


def test_a_machine_whose_purchase_failed_goes_back(buyer: Buyer) -> None:
    token = buyer.decide(1)
    assert buyer.carry_out(token) == "done"
    with buyer.fleet.database.write() as connection:
        failed = t.operation.update().where(t.operation.c.name == f"buy/{token}").values(state="failed")
        connection.execute(failed)
    buyer.clean()
    assert (buyer.world.running(), buyer.rows()) == ([], [])


def test_many_machines_of_no_purchase_wait_for_a_person(buyer: Buyer) -> None:
    buyer.world.stock = 9
    buyer.fleet.clouds["it"].launch("spot-a", 6, token=f"restored-{id(buyer)}")
    for _ in range(3):
        observe_clouds(buyer.fleet)
        apply_operations(buyer.fleet)
        buyer.clock.advance(timedelta(minutes=11))
    assert len(buyer.world.running()) == 6
    with buyer.fleet.database.read() as connection:
        released = connection.execute(select(t.audit.c.target).where(t.audit.c.action == "release")).scalars()
        assert not set(released) & set(buyer.world.running())
