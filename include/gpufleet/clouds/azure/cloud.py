"""Azure as a Cloud: each purchase a Flexible scale set with a name made of its token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpufleet.clock import Clock
from gpufleet.clouds.asking import ANSWER_SECONDS, CONNECT_SECONDS, Asking
from gpufleet.clouds.azure.config import AzureConfig, AzureSale
from gpufleet.clouds.azure.errors import error_of, translated
from gpufleet.clouds.azure.launching import COUNT, FLEET, OFFERING, TOKEN, scale_set, set_name
from gpufleet.clouds.azure.prices import retail_quotes
from gpufleet.clouds.base import Block, Reservation
from gpufleet.clouds.shop import Recent, Shop, Source, check_ask, sale_named
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, Refused, UnderWay
from gpufleet.model.capacity import CapacityType, Instance, InterruptionNotice, Offering
from gpufleet.procurement.prices import Quote

STATES: Final = {"Creating": "pending", "Updating": "ready", "Succeeded": "ready"}
"""Azure's words for a machine's provisioning; every other one is an end."""
AT_WORK: Final = ("Creating", "Updating", "Migrating")
LOOK_EVERY: Final = 0.5
TOKEN_IS_ASKED_FOR: Final = timedelta(days=1)
AT_ITS_START: Final = timedelta(minutes=15)
"""A gang that is not whole so soon after its launch never was."""


class AzureCloud:
    """One resource group."""

    def __init__(self, config: AzureConfig, clock: Clock, asking: Asking | None = None) -> None:
        self.name = config.name
        self._config, self._clock = config, clock
        self._asking = asking or Asking(lambda error: translated(config.name, error))
        self._opened: Any = None
        sold = [sale.offering for sale in config.sales]
        self._shop = Shop(sold, self._sources(), clock, config.refresh_prices)
        self._running = Recent(self._look, clock, config.refresh_instances)

    def offerings(self) -> tuple[Offering, ...]:
        return self._shop.offerings()

    def prices(self) -> tuple[Quote, ...]:
        return self._shop.quotes()

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        check_ask(count, token)
        sale = sale_named([(sale.offering, sale) for sale in self._config.sales], offering, self.name)[1]
        self._running.forget()
        found = self._settled(sale, count, token)
        told = dict(found.tags or {})
        if (told.get(OFFERING), told.get(COUNT)) != (offering, str(count)):
            raise Refused(
                f"Token {token} bought {told.get(COUNT)} of {told.get(OFFERING)} before and buys nothing else."
            )
        if found.properties.provisioning_state == "Failed":
            self._return(found.name, self._why_failed(found.name))
        whole = self._whole(found, sale, count)
        self._sweep()
        return whole

    def instances(self) -> tuple[Instance, ...]:
        return self._running.get()

    def terminate(self, name: str) -> None:
        machines = self._client.virtual_machines
        try:
            self._delete(lambda: machines.begin_delete(self._group, name, force_deletion=True, polling=False))
        finally:
            self._running.forget()

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """None from outside: scheduled events are told to the machine itself, where the node agent hears them."""
        return ()

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        """Nothing is kept for anyone."""

    def reservations(self) -> tuple[Reservation, ...]:
        return ()

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        raise Refused(f"Cloud {self.name} makes no reservations; name a capacity reservation group in its offering.")

    def cancel(self, reservation: str) -> None:
        """None was made here, so it is over."""

    def blocks(self, offering: str, count: int, hours: int) -> tuple[Block, ...]:
        return ()

    def positions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Azure tells nothing below the zone; machines of one set with one placement group are close."""
        return {}

    # -------------------------------------------------------------- buying

    def _settled(self, sale: AzureSale, count: int, token: str) -> Any:
        """The token's scale set when Azure is done with it, made now if it is not there; raises UnderWay until then."""
        name = set_name(self._config.fleet, token)
        found = self._asking.ask(
            lambda: self._get(name) or self._put(name, scale_set(self._config, sale, count, token))
        )
        until = time.monotonic() + self._asking.patience
        while found is None or found.properties.provisioning_state not in ("Succeeded", "Failed", "Canceled"):
            if time.monotonic() >= until:
                raise UnderWay(f"Cloud {self.name} is still at scale set {name}.", retry_after=5.0)
            self._asking.sleep(LOOK_EVERY)
            found = self._asking.ask(lambda: self._get(name))
        return found

    def _get(self, name: str) -> Any:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            return self._client.virtual_machine_scale_sets.get(self._group, name)
        except ResourceNotFoundError:
            return None

    def _put(self, name: str, body: dict[str, Any]) -> Any:
        """Begins; its end is read from the set itself, which a try after a kill can read as well."""
        self._client.virtual_machine_scale_sets.begin_create_or_update(self._group, name, body, polling=False)
        return self._get(name)

    def _whole(self, found: Any, sale: AzureSale, count: int) -> tuple[Instance, ...]:
        members = [i for i in self._look() if i.token == dict(found.tags)[TOKEN]]
        long_ago = found.properties.time_created is not None and self._age(found) > AT_ITS_START
        if len(members) == count or not members or long_ago:
            return tuple(members)
        self._return(
            found.name, NoCapacity(f"Cloud {self.name} started {len(members)} of {count} x {sale.offering.name}")
        )
        raise AssertionError("unreachable")

    def _sweep(self) -> None:
        """A set whose machines are gone still answers for its token; after a day nobody asks any more."""
        sets = [raw for raw in self._listed("virtual_machine_scale_sets") if self._is_ours(raw)]
        old = [raw for raw in sets if raw.properties.time_created and self._age(raw) > TOKEN_IS_ASKED_FOR]
        held = {i.token for i in self._look()} if old else set()
        for raw in old:
            if dict(raw.tags).get(TOKEN) not in held:
                self._delete_set(raw.name)

    def _age(self, raw: Any) -> timedelta:
        created: datetime = raw.properties.time_created
        return self._clock.now() - created

    def _delete_set(self, name: str) -> None:
        sets = self._client.virtual_machine_scale_sets
        self._delete(lambda: sets.begin_delete(self._group, name, force_deletion=True, polling=False))

    def _return(self, name: str, why: GpufleetError) -> None:
        """The whole set goes; raises `why`, or NoCapacity naming the set that could not be deleted."""
        try:
            self._delete_set(name)
        except GpufleetError as e:
            left = ", ".join(i.name for i in self._look() if i.name.startswith(name)) or name
            raise NoCapacity(f"{why}; {left} could not be given back and will be: {e}") from None
        raise why

    def _why_failed(self, name: str) -> GpufleetError:
        view = self._asking.ask(lambda: self._client.virtual_machine_scale_sets.get_instance_view(self._group, name))
        for status in view.statuses or ():
            if status.code.startswith("ProvisioningState/failed/"):
                return error_of(self.name, status.code.rpartition("/")[2], status.message or "")
        return NoCapacity(f"Cloud {self.name} could not start scale set {name} and does not say why.")

    def _delete(self, call: Callable[[], Any]) -> None:
        try:
            self._asking.ask(call)
        except NotFound:
            return

    # -------------------------------------------------------------- looking

    def _look(self) -> tuple[Instance, ...]:
        sets = {raw.id.lower(): raw for raw in self._listed("virtual_machine_scale_sets") if self._is_ours(raw)}
        found = []
        for raw in self._listed("virtual_machines"):
            of = raw.properties.virtual_machine_scale_set
            home = sets.get(of.id.lower()) if of is not None and of.id else None
            if home is not None:
                found.append(_instance(raw, dict(home.tags), self._config.region))
        return tuple(sorted(found, key=lambda instance: instance.name))

    def _is_ours(self, raw: Any) -> bool:
        return dict(raw.tags or {}).get(FLEET) == self._config.fleet

    def _listed(self, kind: str) -> list[Any]:
        return self._asking.ask(lambda: list(getattr(self._client, kind).list(self._group)))

    def _sources(self) -> list[Source]:
        listed = self._config.listed_prices
        sources: list[Source] = [lambda: listed]
        if self._config.retail_prices:
            sources.append(lambda: retail_quotes(self._config, self._asking, self._clock.now()))
        return sources

    @property
    def _group(self) -> str:
        return self._config.resource_group

    @property
    def _client(self) -> Any:
        """Opened when first used; the SDK's own retries are off."""
        if self._opened is None:
            self._opened = client_of(self._config)
        return self._opened


def client_of(config: AzureConfig) -> Any:
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.identity import ClientSecretCredential, DefaultAzureCredential
    from azure.mgmt.compute import ComputeManagementClient

    how: dict[str, Any] = {
        "retry_total": 0,
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": ANSWER_SECONDS,
        **({"authentication_policy": SansIOHTTPPolicy()} if config.anonymous else {}),
    }
    credential = ClientSecretCredential(**config.credentials) if config.credentials else DefaultAzureCredential()
    return ComputeManagementClient(credential, config.subscription, config.endpoint, **how)


def _instance(raw: Any, told: dict[str, str], region: str) -> Instance:
    spot = raw.properties.priority == "Spot"
    reserved = raw.properties.capacity_reservation is not None
    created: datetime = raw.properties.time_created
    return Instance(
        name=raw.name,
        offering=told.get(OFFERING, ""),
        token=told.get(TOKEN, ""),
        zone=f"{region}-{raw.zones[0]}" if raw.zones else region,
        capacity=CapacityType.SPOT if spot else CapacityType.RESERVED if reserved else CapacityType.ON_DEMAND,
        state=STATES.get(str(raw.properties.provisioning_state), "terminated"),
        launched_at=created.astimezone(UTC),
    )
