"""Compute Engine for tests: a small server that speaks its REST contract to the real SDK (operations, pages, errors).

Shapes: Compute Engine API v1. Operation ids are numbers as text; a request with a known `requestId` is the same operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpufleet.clock import SystemClock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.gcp.cloud import GcpCloud
from gpufleet.clouds.gcp.config import GcpConfig, GcpSale, Nic
from gpufleet.clouds.gcp.errors import translated
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Quote
from tests.fronts import Faults, Front, Heard, Said, say, serving

PROJECT, REGION, ZONE = "p1", "us-central1", "us-central1-a"
Json = dict[str, Any]


def offering(name: str = "spot-a", capacity: CapacityType = CapacityType.SPOT, **other: Any) -> Offering:
    told: dict[str, Any] = {
        "cloud": "gcp", "region": REGION, "zone": ZONE, "instance_type": "a3-highgpu-8g",
        "model": "H100-80", "gpus": 8, "price": Fraction(0),
    }  # fmt: skip
    return Offering(name=name, capacity=capacity, **(told | other))


def nics(data: int = 0) -> tuple[Nic, ...]:
    return Nic("management", "management-1"), *(Nic(f"data-{n}", f"data-{n}-1") for n in range(data))


def refused(reason: str, status: int = 400, message: str = "said so") -> Said:
    told = {"code": status, "message": message, "errors": [{"reason": reason, "message": message, "domain": "global"}]}
    return say(status, {"error": told})


@dataclass
class GcpWorld:
    """What the server holds. `looks` is how often an operation is looked at before it ends."""

    stock: int = 3
    looks: int = 1
    page: int = 1
    """Instances in one page: listings are always read to their end."""
    short_by: int = 0
    ends_with: list[str] = field(default_factory=list)
    """Codes with which the next launches end, in their operation."""
    faults: Faults = field(default_factory=Faults)
    instances: dict[str, Json] = field(default_factory=dict)
    reservations: dict[str, Json] = field(default_factory=dict)
    operations: dict[str, Json] = field(default_factory=dict)
    by_request: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    url: str = ""

    def running(self) -> list[str]:
        return sorted(name for name, one in self.instances.items() if one["status"] == "RUNNING")

    def sale(self, sold: Offering | None = None, **other: Any) -> GcpSale:
        return GcpSale(sold or offering(), **({"image": "projects/x/global/images/y", "nics": nics()} | other))

    def cloud(self, *sales: GcpSale, patience: float = 5.0, price: str = "12.10", **other: Any) -> GcpCloud:
        sold = sales or (self.sale(),)
        now, week = datetime.now(UTC), timedelta(days=7)
        listed = tuple(Quote(s.offering.name, Fraction(price), "a price file", now, week) for s in sold)
        told: dict[str, Any] = {
            "name": "gcp", "fleet": "f1", "project": PROJECT, "sales": sold, "listed_prices": listed,
            "refresh_prices": timedelta(0), "refresh_instances": timedelta(0), "endpoint": self.url, "anonymous": True,
        }  # fmt: skip
        asking = Asking(lambda e: translated("gcp", e), patience=patience, sleep=lambda _: None)
        return GcpCloud(GcpConfig(**(told | other)), SystemClock(), asking)

    # ---------------------------------------------------------- what the server does

    def begin(self, request: str, kind: str, target: str, error: str = "") -> Json:
        if request in self.by_request:
            return self.shown(self.by_request[request])
        number = str(next(self.numbers))
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self.operations[f"operation-{number}"] = {
            "id": number, "name": f"operation-{number}", "operationType": kind, "zone": f"zones/{ZONE}",
            "targetLink": f"projects/{PROJECT}/zones/{ZONE}/instances/{target}", "insertTime": now, "startTime": now,
            "status": "RUNNING", "left": self.looks, "end": error,
        }  # fmt: skip
        if request:
            self.by_request[request] = f"operation-{number}"
        return self.shown(f"operation-{number}")

    def shown(self, name: str) -> Json:
        one = self.operations[name]
        if one["left"] <= 0 and one["status"] != "DONE":
            one |= {"status": "DONE", "endTime": datetime.now(UTC).isoformat().replace("+00:00", "Z")}
        one["left"] -= 1
        told = {key: value for key, value in one.items() if key not in ("left", "end")}
        if one["end"] and one["status"] == "DONE":
            told["error"] = {"errors": [{"code": one["end"], "message": f"{one['end']} in {ZONE}"}]}
        return told

    def bulk_insert(self, asked: Json, request: str) -> Said:
        if request in self.by_request:
            return say(200, self.shown(self.by_request[request]))
        wanted = sorted(asked["perInstanceProperties"])
        error = self.ends_with.pop(0) if self.ends_with else ""
        if not error and int(asked["count"]) + len(self.running()) > self.stock:
            error = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        began = [] if error and not self.short_by else wanted[: len(wanted) - self.short_by]
        self.short_by = 0
        for name in began:
            self.instances[name] = self.made(name, asked["instanceProperties"])
        return say(200, self.begin(request, "bulkInsert", "", error))

    def made(self, name: str, properties: Json) -> Json:
        return {
            **properties,
            "id": str(next(self.numbers)),
            "name": name,
            "zone": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}",
            "status": "RUNNING",
            "creationTimestamp": "2026-11-30T16:00:00.000-08:00",
        }

    def preempt(self, name: str) -> None:
        self.instances[name]["status"] = "STOPPING"
        self.begin("", "compute.instances.preempted", name)


def front_of(world: GcpWorld) -> type[Front]:
    class GcpFront(Front):
        faults = world.faults

        def named(self, method: str, path: str, body: bytes) -> str:
            parts = urlsplit(path).path.rpartition("/projects/")[2].split("/")
            return f"{method} {'/'.join(parts[1:2] if parts[1] == 'aggregated' else parts[3:4])}" + (
                f"/{parts[-1]}" if parts[-1] in ("bulkInsert", "instances", "operations", "reservations") else ""
            )

        def answered(self, heard: Heard) -> Said:
            url = urlsplit(heard.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            return _answered(world, heard, url.path.rpartition("/projects/")[2].split("/")[1:], query)

    return GcpFront


def _answered(world: GcpWorld, heard: Heard, path: list[str], query: dict[str, str]) -> Said:
    match heard.method, path:
        case "GET", ["aggregated", kind]:
            return _aggregated(world, kind, query)
        case "POST", ["zones", _, "instances", "bulkInsert"]:
            return world.bulk_insert(heard.json, query["requestId"])
        case "GET", ["zones", _, "operations", name]:
            return say(200, world.shown(name))
        case "DELETE", ["zones", _, kind, name]:
            return _deleted(world, kind, name, query.get("requestId", ""))
        case "POST", ["zones", zone, "reservations"]:
            one = heard.json | {"status": "READY", "zone": f"zones/{zone}"}
            if one["name"] in world.reservations and query["requestId"] not in world.by_request:
                return refused("alreadyExists", 409)
            world.reservations.setdefault(one["name"], one)
            return say(200, world.begin(query["requestId"], "insert", one["name"]))
    return refused("notFound", 404, f"{heard.method} {path}")


def _deleted(world: GcpWorld, kind: str, name: str, request: str) -> Said:
    held = world.instances if kind == "instances" else world.reservations
    if held.pop(name, None) is None:
        return refused("notFound", 404)
    return say(200, world.begin(request, "delete", name))


def _aggregated(world: GcpWorld, kind: str, query: dict[str, str]) -> Said:
    held = {"instances": world.instances, "reservations": world.reservations, "operations": world.operations}[kind]
    found = [one for _, one in sorted(held.items()) if _matches(one, query.get("filter", ""))]
    start = int(query.get("pageToken", "0"))
    answer: Json = {"items": {f"zones/{ZONE}": {kind: found[start : start + world.page]}, "zones/empty": {}}}
    if kind == "operations":
        answer["items"][f"zones/{ZONE}"][kind] = [
            {key: value for key, value in one.items() if key not in ("left", "end")}
            for one in found[start:][: world.page]
        ]
    if start + world.page < len(found):
        answer["nextPageToken"] = str(start + world.page)
    return say(200, answer)


def _matches(one: Json, told: str) -> bool:
    for key, value in re.findall(r'([A-Za-z.-]+)="([^"]*)"', told):
        at = one
        for part in key.split(".", 1):
            at = at.get(part, {}) if isinstance(at, dict) else {}
        if key != "insertTime" and at != value:
            return False
    return True


@contextmanager
def gcp_world(**known: Any) -> Iterator[GcpWorld]:
    world = GcpWorld(**known)
    with serving(front_of(world)) as url:
        world.url = url
        yield world
