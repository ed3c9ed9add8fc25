"""The sandbox's small cloud as a Cloud: a thin client, every rule is on the other side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from gpufleet.clouds.base import Block, Reservation
from gpufleet.errors import Refused
from gpufleet.model.capacity import CapacityType, Instance, InterruptionNotice, Offering
from gpufleet.procurement.prices import Quote
from gpufleet.sandbox.client import Connection


class SandboxCloud:
    """Speaks to the sandbox whose door file lies in `home`."""

    def __init__(self, home: Path, name: str = "sandbox") -> None:
        self.name = name
        self._connection = Connection(home)

    def offerings(self) -> tuple[Offering, ...]:
        return tuple(self._offering(raw) for raw in self._connection.get("/v1/cloud/offerings"))

    def prices(self) -> tuple[Quote, ...]:
        now, valid = datetime.now(UTC), timedelta(minutes=5)
        return tuple(Quote(o.name, o.price, "the sandbox", now, valid, o.currency, o.gpus) for o in self.offerings())

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        raw = self._do("/v1/cloud/instances", offering=offering, count=count, token=token)
        return tuple(map(_instance, raw))

    def instances(self) -> tuple[Instance, ...]:
        return tuple(map(_instance, self._connection.get("/v1/cloud/instances")))

    def terminate(self, name: str) -> None:
        self._do("/v1/cloud/terminate", name=name)

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """None here: its cluster tells them with all that it sees."""
        return ()

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        """Nothing is kept for anyone."""

    def positions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Told by its cluster too."""
        return {}

    def reservations(self) -> tuple[Reservation, ...]:
        return ()

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        raise Refused("The sandbox sells machines only; it has no capacity reservations.")

    def cancel(self, reservation: str) -> None:
        """There is none, so it is over."""

    def blocks(self, offering: str, count: int, hours: int) -> tuple[Block, ...]:
        return ()

    def _do(self, path: str, **body: object) -> Any:
        return self._connection.post(path, json.dumps(body).encode())

    def _offering(self, raw: Mapping[str, Any]) -> Offering:
        typed = {"capacity": CapacityType(raw["capacity"]), "price": Fraction(raw["price"]), "cloud": self.name}
        return Offering(**{**raw, **typed, "position": tuple(raw["position"])})


def _instance(raw: Mapping[str, Any]) -> Instance:
    launched_at = datetime.fromisoformat(raw["launched_at"]).astimezone(UTC)
    return Instance(**{**raw, "capacity": CapacityType(raw["capacity"]), "launched_at": launched_at})
