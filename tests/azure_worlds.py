"""Azure's Resource Manager for tests: a small server that speaks scale sets, machines, pages and prices to the real SDK.

Shapes: Microsoft.Compute, api-version 2026-04-01. Work takes a while: a set is `Creating` for some looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpufleet.clock import SystemClock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.azure.cloud import AzureCloud
from gpufleet.clouds.azure.config import AzureConfig, AzureSale
from gpufleet.clouds.azure.errors import translated
from gpufleet.model.capacity import CapacityType, Offering
from tests.fronts import Faults, Front, Heard, Said, say, serving

GROUP = "/subscriptions/s1/resourceGroups/g1/providers/Microsoft.Compute"
SETS, MACHINES = "virtualMachineScaleSets", "virtualMachines"
REGION, SIZE = "eastus", "Standard_ND96isr_H100_v5"
Json = dict[str, Any]


def offering(name: str = "spot-a", capacity: CapacityType = CapacityType.SPOT, **other: Any) -> Offering:
    told: dict[str, Any] = {
        "cloud": "azure", "region": REGION, "zone": f"{REGION}-1", "instance_type": SIZE,
        "model": "H100-80", "gpus": 8, "price": Fraction(0), "fabric": "infiniband",
    }  # fmt: skip
    return Offering(name=name, capacity=capacity, **(told | other))


def refused(code: str, status: int = 400, message: str = "said so") -> Said:
    return say(status, {"error": {"code": code, "message": message}})


@dataclass
class AzureWorld:
    """What the server holds. `looks` is how often a set is looked at before it is done."""

    stock: int = 3
    looks: int = 1
    short_by: int = 0
    fails_with: list[str] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    sets: dict[str, Json] = field(default_factory=dict)
    machines: dict[str, Json] = field(default_factory=dict)
    prices: dict[str, str] = field(default_factory=lambda: {"ND96isr Spot": "12.10", "ND96isr": "98.32"})
    url: str = ""

    def running(self) -> list[str]:
        return sorted(self.machines)

    def sale(self, sold: Offering | None = None, **other: Any) -> AzureSale:
        return AzureSale(sold or offering(), image="/images/1", subnet="/subnets/1", **other)

    def cloud(self, *sales: AzureSale, patience: float = 5.0, **other: Any) -> AzureCloud:
        told: dict[str, Any] = {
            "name": "azure", "fleet": "f1", "subscription": "s1", "resource_group": "g1", "region": REGION,
            "sales": sales or (self.sale(),), "retail_prices": f"{self.url}/api/retail/prices", "endpoint": self.url,
            "refresh_prices": timedelta(0), "refresh_instances": timedelta(0), "anonymous": True,
        }  # fmt: skip
        told |= other
        if "endpoint" in other:
            told["retail_prices"] = f"{other['endpoint']}/api/retail/prices"
        asking = Asking(lambda e: translated("azure", e), patience=patience, sleep=lambda _: None)
        return AzureCloud(AzureConfig(**told), SystemClock(), asking)

    # ---------------------------------------------------------- what the server does

    def put(self, name: str, asked: Json) -> Said:
        if name in self.sets:
            return say(200, self.sets[name])
        wanted = int(asked["sku"]["capacity"])
        why = self.fails_with.pop(0) if self.fails_with else ""
        if not why and wanted + len(self.machines) > self.stock:
            why = "AllocationFailed"
        now = datetime.now(UTC).isoformat()
        told = {**asked["properties"], "provisioningState": "Creating", "timeCreated": now}
        one = {
            **asked,
            "id": f"{GROUP}/{SETS}/{name}",
            "name": name,
            "properties": told,
            "left": self.looks,
            "why": why,
        }
        self.sets[name] = one
        for number in range(0 if why and not self.short_by else wanted - self.short_by):
            self.machines[f"{name}_{number:08x}"] = self.machine(one, f"{name}_{number:08x}", now)
        self.short_by = 0
        poll = f"{self.url}/operations/{name}?api-version=2026-04-01"
        return say(201, _told(one), **{"Azure-AsyncOperation": poll, "Retry-After": "0"})

    def machine(self, of: Json, name: str, now: str) -> Json:
        told = {
            "provisioningState": "Succeeded",
            "timeCreated": now,
            "priority": of["properties"]["virtualMachineProfile"].get("priority", "Regular"),
            "virtualMachineScaleSet": {"id": of["id"].upper()},  # Azure does not keep the case of ids
        }
        return {
            "id": f"{GROUP}/{MACHINES}/{name}",
            "name": name,
            "location": REGION,
            "zones": of["zones"],
            "properties": told,
        }

    def look(self, name: str) -> Said:
        one = self.sets.get(name)
        if one is None:
            return refused("ResourceNotFound", 404)
        one["left"] -= 1
        if one["left"] < 0:
            one["properties"]["provisioningState"] = "Failed" if one["why"] else "Succeeded"
        return say(200, _told(one))

    def delete(self, kind: str, name: str) -> Said:
        held = self.sets if kind == SETS else self.machines
        if held.pop(name, None) is None:
            return Said(204)
        if kind == SETS:
            for machine in [m for m in self.machines if m.startswith(name)]:
                del self.machines[machine]
        return Said(202, headers={"Location": f"{self.url}/operations/{name}", "Retry-After": "0"})

    def listed(self, kind: str, query: dict[str, str]) -> Said:
        """One in a page: listings are always read to their end."""
        held = [_told(one) for _, one in sorted((self.sets if kind == SETS else self.machines).items())]
        at = int(query.get("at", "0"))
        answer: Json = {"value": held[at : at + 1]}
        if at + 1 < len(held):
            answer["nextLink"] = f"{self.url}{GROUP}/{kind}?api-version=2026-04-01&at={at + 1}"
        return say(200, answer)

    def retail(self) -> Said:
        items = [
            {"skuName": name, "productName": "Virtual Machines NDSv5", "retailPrice": float(price), "currencyCode": "USD",
             "unitOfMeasure": "1 Hour", "armSkuName": SIZE, "type": "Consumption"}
            for name, price in self.prices.items()
        ]  # fmt: skip
        return say(200, {"Items": items, "NextPageLink": None})


def _told(one: Json) -> Json:
    return {key: value for key, value in one.items() if key not in ("left", "why")}


def front_of(world: AzureWorld) -> type[Front]:
    class AzureFront(Front):
        faults = world.faults

        def named(self, method: str, path: str, body: bytes) -> str:
            return f"{method} {'/'.join(urlsplit(path).path.split('/')[7:8])}"

        def answered(self, heard: Heard) -> Said:
            url = urlsplit(heard.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            return _answered(world, heard, url.path, query)

    return AzureFront


def _answered(world: AzureWorld, heard: Heard, path: str, query: dict[str, str]) -> Said:
    if path.endswith("/retail/prices"):
        return world.retail()
    match heard.method, path.removeprefix(GROUP).strip("/").split("/"):
        case "PUT", [_, name]:
            return world.put(name, heard.json)
        case "GET", [_, name, "instanceView"]:
            why = world.sets[name]["why"]
            status = {"code": f"ProvisioningState/failed/{why}", "level": "Error", "message": f"{why} in zone 1"}
            return say(200, {"statuses": [status]})
        case "GET", ["virtualMachineScaleSets", name]:
            return world.look(name)
        case "GET", [kind]:
            return world.listed(kind, query)
        case "DELETE", [kind, name]:
            return world.delete(kind, name)
    return refused("NotFound", 404)


@contextmanager
def azure_world(**known: Any) -> Iterator[AzureWorld]:
    world = AzureWorld(**known)
    with serving(front_of(world)) as url:
        world.url = url
        yield world
