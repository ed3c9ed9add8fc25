"""Amazon EC2 as a Cloud: what runs is told by tag, what was bought is found by token."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any, Final

import structlog

from gpufleet.clock import Clock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.aws.clients import Clients
from gpufleet.clouds.aws.config import AwsConfig, AwsSale
from gpufleet.clouds.aws.errors import Ended, error_of, translated
from gpufleet.clouds.aws.launching import FLEET, OFFERING, TOKEN, create_fleet, run_instances
from gpufleet.clouds.aws.notices import Queue
from gpufleet.clouds.aws.prices import on_demand_quotes, spot_quotes
from gpufleet.clouds.aws.reserving import Reservations
from gpufleet.clouds.base import Block, Reservation
from gpufleet.clouds.shop import Recent, Shop, check_ask, check_same, sale_named
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, UnderWay
from gpufleet.model.capacity import CapacityType, Instance, InterruptionNotice, Offering
from gpufleet.procurement.prices import Quote

log = structlog.get_logger()

STATES: Final = {"pending": "pending", "running": "ready"}
"""EC2's words; every other one is an end: what stops is not started again by us."""


class AwsCloud:
    """One region of one account."""

    def __init__(self, config: AwsConfig, clock: Clock, asking: Asking | None = None) -> None:
        self.name = config.name
        self._config, self._clock = config, clock
        self._asking = asking or Asking(lambda error: translated(config.name, error))
        self._clients = Clients(config)
        self._shop = Shop([sale.offering for sale in config.sales], self._sources(), clock, config.refresh_prices)
        self._running = Recent(self._look, clock, config.refresh_instances)
        self._queue = Queue(config.queue_url, self._clients, self._asking, self._ours)
        self._reservations = Reservations(config, self._clients, self._asking)

    def offerings(self) -> tuple[Offering, ...]:
        return self._shop.offerings()

    def prices(self) -> tuple[Quote, ...]:
        return self._shop.quotes()

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        check_ask(count, token)
        sale = self._sale(offering)
        known = tuple(i for i in self._described(TOKEN, token) if i.token == token)
        if known:
            check_same(known, offering, count, token)
        if len(known) == count:
            return known
        self._running.forget()
        try:
            bought = self._buy(sale, count, token)
        except Ended:
            return known
        found = {instance.name: instance for instance in (*known, *bought)}
        return tuple(found[name] for name in sorted(found))

    def instances(self) -> tuple[Instance, ...]:
        return self._running.get()

    def terminate(self, name: str) -> None:
        try:
            self._give_back([name])
        finally:
            self._running.forget()

    def notices(self) -> tuple[InterruptionNotice, ...]:
        return self._queue.notices() if self._config.queue_url else ()

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        self._queue.heard(notices)

    def reservations(self) -> tuple[Reservation, ...]:
        return self._reservations.all()

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        check_ask(count, token)
        return self._reservations.reserve(self._sale(offering), count, token, block)

    def cancel(self, reservation: str) -> None:
        self._reservations.cancel(reservation)

    def blocks(self, offering: str, count: int, hours: int) -> tuple[Block, ...]:
        return self._reservations.blocks(self._sale(offering), count, hours, self._clock.now())

    def positions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Network nodes above each running machine, broad to narrow; EC2 tells none of what is not running."""
        wanted = list(names)
        if not wanted:
            return {}
        pages = self._clients("ec2").get_paginator("describe_instance_topology").paginate(InstanceIds=wanted)
        told = self._asking.ask(lambda: [raw for page in pages for raw in page["Instances"]])
        return {raw["InstanceId"]: (raw["AvailabilityZone"], *raw.get("NetworkNodes", ())) for raw in told}

    # -------------------------------------------------------------- buying

    def _buy(self, sale: AwsSale, count: int, token: str) -> tuple[Instance, ...]:
        """EC2 starts all or none; should fewer come than were asked for, they go back before NoCapacity is raised."""
        raw = self._fleet(sale, count, token) if sale.launch_template else self._run(sale, count, token)
        if len(raw) < count:
            self._return(raw, sale, count)
        return tuple(_instance(one) for one in raw)

    def _run(self, sale: AwsSale, count: int, token: str) -> list[dict[str, Any]]:
        asked = run_instances(self._config, sale, count, token)
        return list(self._asking.ask(lambda: self._clients("ec2").run_instances(**asked))["Instances"])

    def _fleet(self, sale: AwsSale, count: int, token: str) -> list[dict[str, Any]]:
        asked = create_fleet(self._config, sale, count, token)
        said = self._asking.ask(lambda: self._clients("ec2").create_fleet(**asked))
        names = [name for some in said.get("Instances", ()) for name in some["InstanceIds"]]
        if not names and said.get("Errors"):
            first = min(said["Errors"], key=lambda e: str(e.get("ErrorCode")))
            raise error_of(self.name, str(first.get("ErrorCode")), str(first.get("ErrorMessage", "")))
        raw = self._raw("instance-id", names) if names else []
        if len(raw) < len(names):
            raise UnderWay(f"Cloud {self.name} does not show all of {', '.join(names)} yet.", retry_after=2.0)
        return raw

    def _return(self, raw: list[dict[str, Any]], sale: AwsSale, count: int) -> None:
        names = [one["InstanceId"] for one in raw]
        told = f"Cloud {self.name} started {len(names)} of {count} x {sale.offering.name}"
        if names:
            try:
                self._give_back(names)
            except GpufleetError as e:
                raise NoCapacity(f"{told}; {', '.join(names)} could not be given back and will be: {e}") from None
        raise NoCapacity(f"{told}; they were given back.")

    def _give_back(self, names: list[str]) -> None:
        try:
            self._asking.ask(lambda: self._clients("ec2").terminate_instances(InstanceIds=names))
        except NotFound:
            log.info("already gone", cloud=self.name, instances=names)

    # -------------------------------------------------------------- looking

    def _look(self) -> tuple[Instance, ...]:
        return self._described(FLEET, self._config.fleet)

    def _described(self, tag: str, value: str) -> tuple[Instance, ...]:
        found = (
            _instance(raw) for raw in self._raw(f"tag:{tag}", [value]) if _tags(raw).get(FLEET) == self._config.fleet
        )
        return tuple(sorted(found, key=lambda instance: instance.name))

    def _raw(self, key: str, values: list[str]) -> list[dict[str, Any]]:
        pages = (
            self._clients("ec2").get_paginator("describe_instances").paginate(Filters=[{"Name": key, "Values": values}])
        )
        return self._asking.ask(
            lambda: [raw for page in pages for group in page["Reservations"] for raw in group["Instances"]]
        )

    def _ours(self, names: set[str]) -> set[str]:
        """Looked for again when one is new: a machine may be taken back in its first seconds."""
        if names - {instance.name for instance in self._running.get()}:
            self._running.forget()
        return names & {instance.name for instance in self._running.get()}

    def _sale(self, offering: str) -> AwsSale:
        return sale_named([(sale.offering, sale) for sale in self._config.sales], offering, self.name)[1]

    def _sources(self) -> list[Any]:
        listed = self._config.listed_prices
        asked = [on_demand_quotes] if self._config.price_list else []
        return [
            lambda: listed,
            *(
                lambda source=source: source(self._config, self._clients, self._asking, self._clock.now())
                for source in (*asked, spot_quotes)
            ),
        ]


def _tags(raw: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}


def _instance(raw: dict[str, Any]) -> Instance:
    told = _tags(raw)
    return Instance(
        name=raw["InstanceId"],
        offering=told.get(OFFERING, ""),
        token=told.get(TOKEN, ""),
        zone=raw["Placement"]["AvailabilityZone"],
        capacity=_capacity(raw),
        state=STATES.get(raw["State"]["Name"], "terminated"),
        launched_at=raw["LaunchTime"].astimezone(UTC),
    )


def _capacity(raw: dict[str, Any]) -> CapacityType:
    life = raw.get("InstanceLifecycle", "")
    if life == "spot":
        return CapacityType.SPOT
    return (
        CapacityType.RESERVED
        if life == "capacity-block" or raw.get("CapacityReservationId")
        else CapacityType.ON_DEMAND
    )
