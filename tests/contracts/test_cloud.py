"""What every kind of Cloud promises (`clouds/base.py`), asked of each kind alike.

A new kind is one more class with the methods of `CloudKind` and one more line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, timedelta
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import ClassVar, Protocol

import pytest
from tests.aws_worlds import AwsWorld, aws_world
from tests.azure_worlds import AzureWorld, azure_world
from tests.gcp_worlds import GcpWorld, gcp_world
from tests.sandboxes import eventually, running_sandbox

from gpufleet.clouds.base import Cloud
from gpufleet.clouds.sandbox import SandboxCloud
from gpufleet.clusters.base import Cluster
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import Invalid, NoCapacity, NotFound, Refused, Temporary
from gpufleet.model.capacity import CapacityType, Instance

_numbers = count(1)


class CloudKind(Protocol):
    """A cloud that sells one spot offering of 8 H100-80 for 12.10 USD, and has `stock` machines of it.

    `cluster` is what its machines join, None where no machine of its can really start. Tests share it and give back
    what they bought.
    """

    cloud: Cloud
    cluster: Cluster | None
    offering: str
    stock: int

    @property
    def unreachable(self) -> Cloud:
        """The same kind, with nobody at the other end."""
        ...


class _Sandbox:
    """The embedded cloud, in a process of its own."""

    offering, stock = "spot-a", 3
    world: ClassVar = {
        "version": 1,
        "offerings": [
            {
                "name": "spot-a",
                "region": "r1",
                "zone": "z",
                "leaf": "l",
                "instance_type": "gpu8-h100",
                "capacity": "spot",
                "model": "H100-80",
                "gpus": 8,
                "price": "12.10",
                "launch_delay": "100ms",
                "available": 3,
            }
        ],
    }

    def __init__(self, home: Path) -> None:
        self.cloud: Cloud = SandboxCloud(home)
        self.cluster: Cluster | None = SandboxCluster(home)
        self.unreachable: Cloud = SandboxCloud(home / "nobody")

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[CloudKind]:
        with running_sandbox(home, cls.world):
            yield cls(home)


class _Aws:
    """moto's EC2 with a small stock before it, through real boto3."""

    offering, stock = "spot-a", 3
    cluster: Cluster | None = None

    def __init__(self, world: AwsWorld) -> None:
        self.cloud: Cloud = world.cloud()
        self.unreachable: Cloud = world.cloud(patience=0.0, endpoint_url="http://127.0.0.1:9")

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[CloudKind]:
        with aws_world(stock=cls.stock, answers=quiet_reservations()) as world:
            yield cls(world)


class _Gcp:
    """A small Compute Engine, through the real SDK."""

    offering, stock = "spot-a", 3
    cluster: Cluster | None = None

    def __init__(self, world: GcpWorld) -> None:
        self.cloud: Cloud = world.cloud()
        self.unreachable: Cloud = world.cloud(patience=0.0, endpoint="http://127.0.0.1:9")

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[CloudKind]:
        with gcp_world(stock=cls.stock) as world:
            yield cls(world)


class _Azure:
    """A small Resource Manager, through the real SDK."""

    offering, stock = "spot-a", 3
    cluster: Cluster | None = None

    def __init__(self, world: AzureWorld) -> None:
        self.cloud: Cloud = world.cloud()
        self.unreachable: Cloud = world.cloud(patience=0.0, endpoint="http://127.0.0.1:9")

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[CloudKind]:
        with azure_world(stock=cls.stock) as world:
            yield cls(world)


KINDS: dict[str, Callable[[Path], AbstractContextManager[CloudKind]]] = {
    "sandbox": _Sandbox.open,
    "aws": _Aws.open,
    "gcp": _Gcp.open,
    "azure": _Azure.open,
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudKind]:
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as kind:
        yield kind


@pytest.fixture
def token(kind: CloudKind) -> Iterator[str]:
    """A token of this test alone; what it bought is given back."""
    token = f"op-{next(_numbers)}"
    yield token
    for instance in kind.cloud.instances():
        if instance.token == token:
            kind.cloud.terminate(instance.name)


def quiet_reservations() -> dict[str, str]:
    return {"DescribeCapacityReservations": "<capacityReservationSet/>"}


def seen(kind: CloudKind, name: str) -> Instance:
    return next(instance for instance in kind.cloud.instances() if instance.name == name)


def is_gone(kind: CloudKind, name: str) -> bool:
    """A cloud tells of an ended machine for a while, or forgets it at once."""
    return all(instance.state == "terminated" for instance in kind.cloud.instances() if instance.name == name)


class TestOfferings:
    def test_what_is_sold_and_for_how_much(self, kind: CloudKind) -> None:
        (offering,) = kind.cloud.offerings()
        assert (offering.name, offering.cloud, offering.currency) == (kind.offering, kind.cloud.name, "USD")
        assert (offering.model, offering.gpus, offering.capacity) == ("H100-80", 8, CapacityType.SPOT)
        assert (offering.price, offering.available) == (Fraction(121, 10), True)

    def test_every_price_tells_where_it_comes_from_and_how_long_it_holds(self, kind: CloudKind) -> None:
        quotes = {quote.offering: quote for quote in kind.cloud.prices()}
        quote = quotes[kind.offering]
        assert (quote.price, quote.currency) == (Fraction(121, 10), "USD")
        assert quote.source
        assert quote.fetched_at.tzinfo is UTC
        assert quote.valid_for > timedelta(0)

    def test_nobody_there_is_temporary(self, kind: CloudKind) -> None:
        with pytest.raises(Temporary):
            kind.unreachable.offerings()


class TestLaunch:
    def test_they_come_and_join_by_themselves(self, kind: CloudKind, token: str) -> None:
        bought = kind.cloud.launch(kind.offering, 2, token=token)
        assert len({instance.name for instance in bought}) == 2
        assert {(instance.offering, instance.token) for instance in bought} == {(kind.offering, token)}
        assert {instance.launched_at.tzinfo for instance in bought} == {UTC}
        for instance in bought:
            eventually(lambda name=instance.name: seen(kind, name).state == "ready")  # type: ignore[misc]
        if kind.cluster is not None:
            assert {node.instance for node in kind.cluster.observe().nodes} >= {instance.name for instance in bought}

    def test_the_same_token_finds_the_same_machines(self, kind: CloudKind, token: str) -> None:
        first = kind.cloud.launch(kind.offering, 2, token=token)
        again = kind.cloud.launch(kind.offering, 2, token=token)
        assert [instance.name for instance in again] == [instance.name for instance in first]
        assert len([instance for instance in kind.cloud.instances() if instance.token == token]) == 2

    def test_all_or_none(self, kind: CloudKind, token: str) -> None:
        before = kind.cloud.instances()
        with pytest.raises(NoCapacity):
            kind.cloud.launch(kind.offering, kind.stock + 1, token=token)
        assert kind.cloud.instances() == before

    def test_what_was_refused_may_be_asked_again_for_less(self, kind: CloudKind, token: str) -> None:
        with pytest.raises(NoCapacity):
            kind.cloud.launch(kind.offering, kind.stock + 1, token=token)
        assert len(kind.cloud.launch(kind.offering, 1, token=token)) == 1

    def test_a_token_buys_one_thing(self, kind: CloudKind, token: str) -> None:
        kind.cloud.launch(kind.offering, 2, token=token)
        with pytest.raises(Refused):
            kind.cloud.launch(kind.offering, 1, token=token)
        assert len([i for i in kind.cloud.instances() if i.token == token and i.state != "terminated"]) == 2

    @pytest.mark.parametrize(("count", "asked_with"), [(0, "op"), (1, "")])
    def test_a_launch_needs_a_count_and_a_token(self, kind: CloudKind, count: int, asked_with: str) -> None:
        with pytest.raises(Invalid):
            kind.cloud.launch(kind.offering, count, token=asked_with)

    def test_what_is_not_sold_is_not_found(self, kind: CloudKind, token: str) -> None:
        with pytest.raises(NotFound):
            kind.cloud.launch("no-such-offering", 1, token=token)

    def test_nobody_there_is_temporary(self, kind: CloudKind) -> None:
        with pytest.raises(Temporary):
            kind.unreachable.launch(kind.offering, 1, token="t")


class TestPositions:
    def test_of_nothing_nothing_is_told(self, kind: CloudKind) -> None:
        assert kind.cloud.positions(()) == {}


class TestNotices:
    def test_quiet_weather_announces_nothing(self, kind: CloudKind) -> None:
        assert kind.cloud.notices() == ()
        kind.cloud.heard(())


class TestReservations:
    def test_what_was_never_reserved_is_not_there_and_its_end_is_done(self, kind: CloudKind) -> None:
        assert kind.cloud.reservations() == ()
        kind.cloud.cancel("cr-00000000")


class TestTerminate:
    def test_it_goes_and_is_told_of_as_ended_or_not_any_more(self, kind: CloudKind, token: str) -> None:
        (bought,) = kind.cloud.launch(kind.offering, 1, token=token)
        for _ in range(2):
            kind.cloud.terminate(bought.name)
        eventually(lambda: is_gone(kind, bought.name))
        if kind.cluster is not None:
            assert bought.name not in {node.name for node in kind.cluster.observe().nodes}

    def test_its_token_buys_nothing_new(self, kind: CloudKind, token: str) -> None:
        (bought,) = kind.cloud.launch(kind.offering, 1, token=token)
        kind.cloud.terminate(bought.name)
        eventually(lambda: is_gone(kind, bought.name))
        again = kind.cloud.launch(kind.offering, 1, token=token)
        assert {instance.name for instance in again} <= {bought.name}
        assert {instance.state for instance in again} <= {"terminated"}
        assert is_gone(kind, bought.name)

    def test_one_that_was_never_there_is_done(self, kind: CloudKind) -> None:
        kind.cloud.terminate("i-00000000")
