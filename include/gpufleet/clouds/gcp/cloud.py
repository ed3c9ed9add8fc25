"""Compute Engine as a Cloud: names made of the token, operations that the same request finds again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpufleet.clock import Clock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.base import Block, Reservation
from gpufleet.clouds.gcp.clients import Clients
from gpufleet.clouds.gcp.config import GcpConfig, GcpSale
from gpufleet.clouds.gcp.errors import Exists, translated
from gpufleet.clouds.gcp.launching import FLEET, OFFERING, TOKEN, bulk_insert, prefix, request_id, token_label
from gpufleet.clouds.gcp.reserving import Reservations
from gpufleet.clouds.shop import Recent, Shop, check_ask, check_same, sale_named
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, Refused, Temporary
from gpufleet.model.capacity import CapacityType, Instance, InterruptionNotice, Offering
from gpufleet.procurement.prices import Quote

STATES: Final = {"PROVISIONING": "pending", "STAGING": "pending", "REPAIRING": "pending", "RUNNING": "ready"}
"""Compute Engine's words; every other one is an end."""
PREEMPTED: Final = "compute.instances.preempted"
WARNING: Final = timedelta(seconds=30)
REMEMBERED: Final = timedelta(hours=1)
AT_ITS_START: Final = timedelta(minutes=2)
"""A gang that is not whole so soon after its launch never was."""


class GcpCloud:
    """One project; offerings name their zones."""

    def __init__(self, config: GcpConfig, clock: Clock, asking: Asking | None = None) -> None:
        self.name = config.name
        self._config, self._clock = config, clock
        self._clients = Clients(config, asking or Asking(lambda error: translated(config.name, error)))
        sold, listed = [sale.offering for sale in config.sales], config.listed_prices
        self._shop = Shop(sold, [lambda: listed], clock, config.refresh_prices)
        self._running = Recent(self._look, clock, config.refresh_instances)
        self._reservations = Reservations(config, self._clients)
        self._told: set[str] = set()

    def offerings(self) -> tuple[Offering, ...]:
        self._running.get()  # prices lie in a file: only this says whether the cloud answers
        return self._shop.offerings()

    def prices(self) -> tuple[Quote, ...]:
        return self._shop.quotes()

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        check_ask(count, token)
        sale = self._sale(offering)
        known = self._bought_with(token)
        if known:
            check_same(known, offering, count, token)
        if len(known) == count:
            return known
        self._running.forget()
        return self._buy(sale, count, token)

    def instances(self) -> tuple[Instance, ...]:
        return self._running.get()

    def terminate(self, name: str) -> None:
        found = next((raw for raw in self._raw(f'name="{name}"') if raw.name == name), None)
        try:
            if found is not None:
                self._delete(_zone(found), name)
        finally:
            self._running.forget()

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """Preemptions under way: the operation begins with the 30 s warning. What the node hears comes sooner."""
        since = self._clock.now() - REMEMBERED
        asked = {
            "project": self._config.project,
            "filter": f'operationType="{PREEMPTED}" AND insertTime>="{since:%Y-%m-%dT%H:%M:%SZ}"',
        }
        raw = self._clients.list("GlobalOperationsClient", "aggregated_list", asked, lambda one: one[1].operations)
        found = (_notice(one) for one in raw if one.operation_type == PREEMPTED)
        ours = prefix(self._config.fleet)
        new = (n for n in found if n.instance.startswith(ours) and n.id not in self._told and n.at >= since)
        return tuple(sorted(new, key=lambda n: (n.deadline, n.id)))

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        self._told |= {notice.id for notice in notices}

    def reservations(self) -> tuple[Reservation, ...]:
        return self._reservations.all()

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        check_ask(count, token)
        if block:
            raise Refused(f"Cloud {self.name} sells no blocks here; reserve without one.")
        return self._reservations.reserve(self._sale(offering), count, token)

    def cancel(self, reservation: str) -> None:
        self._reservations.cancel(reservation)

    def blocks(self, offering: str, count: int, hours: int) -> tuple[Block, ...]:
        return ()

    def positions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Cluster, block and subblock of each machine, broad to narrow, where Google tells them."""
        wanted, found = set(names), {}
        for raw in self._raw(f'labels.{FLEET}="{self._config.fleet}"') if wanted else ():
            at = raw.resource_status.physical_host_topology
            if raw.name in wanted and at.block:
                found[raw.name] = tuple(part for part in (_zone(raw), at.cluster, at.block, at.subblock) if part)
        return found

    # -------------------------------------------------------------- buying

    def _buy(self, sale: GcpSale, count: int, token: str) -> tuple[Instance, ...]:
        """The same request is the same operation, so a try after a kill finds the end of the first one."""
        zone, asked = sale.offering.zone, bulk_insert(self._config, sale, count, token)
        try:
            ended = self._clients.wait(zone, self._clients.ask("InstancesClient", "bulk_insert_unary", asked))
        except Exists:
            return self._bought_with(token)
        except GpufleetError as e:
            if isinstance(e, Temporary) and not isinstance(e, NoCapacity):
                raise  # it may still be at it: the next try finds the end
            self._return(token, str(e))
            raise
        found = self._bought_with(token)
        whole = len(found) == count or not found
        if whole or self._clock.now() - _instant(ended.end_time) > AT_ITS_START:
            return found
        told = f"Cloud {self.name} started {len(found)} of {count} x {sale.offering.name}"
        self._return(token, told)
        raise NoCapacity(f"{told}; they were given back.")

    def _return(self, token: str, why: str) -> None:
        """Whatever a failed launch left behind goes back; raises NoCapacity naming what does not."""
        left = [instance for instance in self._bought_with(token) if instance.state != "terminated"]
        try:
            for instance in left:
                self._delete(instance.zone, instance.name)
        except GpufleetError as e:
            names = ", ".join(instance.name for instance in left)
            raise NoCapacity(f"{why}; of {names} not all could be given back and will be: {e}") from None

    def _delete(self, zone: str, name: str) -> None:
        asked = {"project": self._config.project, "zone": zone, "instance": name}
        try:
            self._clients.ask("InstancesClient", "delete_unary", asked | {"request_id": request_id("delete", name)})
        except NotFound:
            return

    # -------------------------------------------------------------- looking

    def _look(self) -> tuple[Instance, ...]:
        found = map(_instance, self._raw(f'labels.{FLEET}="{self._config.fleet}"'))
        return tuple(sorted(found, key=lambda instance: instance.name))

    def _bought_with(self, token: str) -> tuple[Instance, ...]:
        found = map(_instance, self._raw(f'labels.{TOKEN}="{token_label(token)}"'))
        mine = (i for i in found if i.token == token)
        return tuple(sorted(mine, key=lambda instance: int(instance.name.rpartition("-")[2])))

    def _raw(self, told: str) -> list[Any]:
        asked = {"project": self._config.project, "filter": told, "max_results": 500}
        raw = self._clients.list("InstancesClient", "aggregated_list", asked, lambda one: one[1].instances)
        return [one for one in raw if dict(one.labels).get(FLEET) == self._config.fleet]

    def _sale(self, offering: str) -> GcpSale:
        return sale_named([(sale.offering, sale) for sale in self._config.sales], offering, self.name)[1]


def _instance(raw: Any) -> Instance:
    told = {item.key: item.value for item in raw.metadata.items}
    return Instance(
        name=raw.name,
        offering=told.get(OFFERING, ""),
        token=told.get(TOKEN, ""),
        zone=_zone(raw),
        capacity=_capacity(raw),
        state=STATES.get(raw.status, "terminated"),
        launched_at=_instant(raw.creation_timestamp),
    )


def _capacity(raw: Any) -> CapacityType:
    if raw.scheduling.provisioning_model == "SPOT":
        return CapacityType.SPOT
    bound = raw.reservation_affinity.consume_reservation_type == "SPECIFIC_RESERVATION"
    return CapacityType.RESERVED if bound else CapacityType.ON_DEMAND


def _notice(raw: Any) -> InterruptionNotice:
    at, name = _instant(raw.start_time or raw.insert_time), raw.target_link.rsplit("/", 1)[-1]
    return InterruptionNotice(f"gcp-{raw.name}", name, name, at, at + WARNING, "spot")


def _zone(raw: Any) -> str:
    return str(raw.zone).rsplit("/", 1)[-1]


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
