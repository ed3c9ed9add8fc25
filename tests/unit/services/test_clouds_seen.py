"""What clouds say reaches the tables: reached quotas, notices, and clouds that cannot be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.fleets import played
from tests.sandboxes import eventually

from gpufleet.clock import ManualClock
from gpufleet.clouds.base import Cloud, DryRun, NoAccess, QuotaReached
from gpufleet.clouds.sandbox import SandboxCloud
from gpufleet.errors import GpufleetError, NoCapacity
from gpufleet.model.capacity import CapacityType, Instance, InterruptionNotice, Offering
from gpufleet.services.apply_operations import apply_operations
from gpufleet.services.fleet import Fleet
from gpufleet.services.look_at_clouds import observe_clouds
from gpufleet.store import operations, world
from gpufleet.store import schema as t
from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def sold(name: str, capacity: str, region: str = "r1", cloud: str = "it") -> Offering:
    return Offering(name, cloud, region, f"{region}-a", "p5", CapacityType(capacity), "H100-80", 8, Fraction(10))


class Scripted(SandboxCloud):
    """Sells a list, and says no as it is told to."""

    def __init__(self, *offerings: Offering, error: GpufleetError | None = None) -> None:
        self.name, self.sold, self.error = "it", offerings, error
        self.waiting: list[InterruptionNotice] = []

    def offerings(self) -> tuple[Offering, ...]:
        if isinstance(self.error, NoAccess):
            raise self.error
        return self.sold

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        assert self.error is not None
        raise self.error

    def instances(self) -> tuple[Instance, ...]:
        return ()

    def notices(self) -> tuple[InterruptionNotice, ...]:
        return tuple(self.waiting)

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        told = {notice.id for notice in notices}
        self.waiting = [notice for notice in self.waiting if notice.id not in told]


SOLD = (
    sold("spot-a", "spot"),
    sold("spot-b", "spot"),
    sold("spot-far", "spot", "r2"),
    sold("on-demand-a", "on-demand"),
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    database = Database(f"sqlite:///{tmp_path / 'fleet.db'}")
    migrate(database)
    yield Fleet("f1", tmp_path, database, {}, {}, ManualClock(NOW), "")
    database.dispose()


def left_alone(fleet: Fleet) -> set[str]:
    with fleet.database.read() as connection:
        return {o.name for o, _, not_before in world.offerings(connection) if not_before is not None}


def bought_in_vain(fleet: Fleet, cloud: Cloud) -> str:
    """A purchase of spot-a that fails; returns what the audit says."""
    fleet.clouds["it"] = cloud
    observe_clouds(fleet)
    args = {"cloud": "it", "offering": "spot-a", "count": 2, "token": "t1", "job": "j"}
    with fleet.database.write() as connection:
        operations.decide(connection, NOW, kind="buy", target="buy/j", name="buy/t1", args=args)
    apply_operations(fleet)
    with fleet.database.read() as connection:
        assert operations.state_of(connection, "buy/t1") == "failed"
        return str(connection.execute(select(t.audit.c.detail).where(t.audit.c.action == "not-bought")).scalar())


def test_none_left_closes_the_offering_and_a_quota_all_that_draw_on_it(fleet: Fleet) -> None:
    assert "none left" in bought_in_vain(fleet, Scripted(*SOLD, error=NoCapacity("none left")))
    assert left_alone(fleet) == {"spot-a"}


def test_a_reached_quota_is_no_reason_to_try_the_next_zone(fleet: Fleet) -> None:
    told = bought_in_vain(fleet, Scripted(*SOLD, error=QuotaReached("MaxSpotInstanceCountExceeded")))
    assert told == "MaxSpotInstanceCountExceeded"
    assert left_alone(fleet) == {"spot-a", "spot-b"}


def test_a_dry_run_leaves_its_sentence_in_the_audit(fleet: Fleet) -> None:
    assert bought_in_vain(fleet, Scripted(*SOLD, error=DryRun("would have bought"))) == "would have bought"


def test_a_cloud_that_does_not_let_us_in_keeps_no_other_from_being_seen(fleet: Fleet) -> None:
    fleet.clouds["a"] = Scripted(error=NoAccess("no"))
    fleet.clouds["b"] = Scripted(sold("there", "spot", cloud="b"))
    observe_clouds(fleet)
    with fleet.database.read() as connection:
        assert [o.name for o, _, _ in world.offerings(connection)] == ["there"]


def test_a_queue_that_cannot_be_read_does_not_hide_what_is_sold(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Scripted(sold("there", "spot"))

    def refused() -> tuple[InterruptionNotice, ...]:
        raise NoAccess("sqs:ReceiveMessage")

    monkeypatch.setattr(cloud, "notices", refused)
    fleet.clouds["it"] = cloud
    observe_clouds(fleet)
    with fleet.database.read() as connection:
        assert [o.name for o, _, _ in world.offerings(connection)] == ["there"]


def test_a_notice_is_written_down_once_before_the_cloud_is_told_that_it_was_heard(fleet: Fleet) -> None:
    cloud = Scripted()
    fleet.clouds["it"] = cloud
    for _ in range(2):
        cloud.waiting = [InterruptionNotice(f"n{n}", "i-1", "i-1", NOW, NOW + timedelta(minutes=2)) for n in range(500)]
        observe_clouds(fleet)
        assert cloud.waiting == []
    with fleet.database.read() as connection:
        assert len(world.interruptions(connection, 1000)) == 500


WORLD = {
    "version": 1,
    "levels": ["zone", "leaf"],
    "nodes": [],
    "offerings": [
        {"name": "spot", "region": "east", "zone": "z", "leaf": "l", "instance_type": "gpu8", "capacity": "spot",
         "model": "H100-80", "gpus": 8, "price": "12.00", "launch_delay": "100ms", "available": 4},
    ],
}  # fmt: skip


def test_a_node_that_only_its_cloud_announced_is_left_in_time(tmp_path: Path) -> None:
    with played(tmp_path, WORLD) as fleet:
        job = fleet.submit(gpus=8, capacity=["spot"])
        first = eventually(lambda: fleet.until(job, "running", within=20))["where"][0]["node"]
        now = fleet.fleet.clock.now()
        told = InterruptionNotice("event-1", first, first, now, now + timedelta(minutes=2))
        with fleet.fleet.database.write() as connection:
            world.hear(connection, told, now)

        def moved() -> bool:
            view = fleet.until(job, "pending", "running", "stopping", "starting")
            return bool(view["where"]) and view["where"][0]["node"] != first

        eventually(moved)
