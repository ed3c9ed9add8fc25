"""EC2, SQS and EventBridge for tests: moto's HTTP server, and before it what moto lacks.

The front knows scarcity (a stock), client tokens, capacity errors, spot prices, topology and capacity reservations; all
else is moto's. Shapes of its answers: EC2's API reference, 2016-11-15.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import httpx
from moto.server import ThreadedMotoServer

from gpufleet.clock import SystemClock
from gpufleet.clouds.asking import Asking
from gpufleet.clouds.aws.cloud import AwsCloud
from gpufleet.clouds.aws.config import AwsConfig, AwsSale
from gpufleet.clouds.aws.errors import translated
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Quote
from tests.fronts import Faults, Front, Heard, Said, serving

REGION, ZONE = "us-east-1", "us-east-1a"
IMAGE = "ami-12c6146b"
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test-secret-0451"}
NEVER = timedelta(0)


def offering(name: str = "spot-a", capacity: CapacityType = CapacityType.SPOT, **other: Any) -> Offering:
    told: dict[str, Any] = {
        "cloud": "aws", "region": REGION, "zone": ZONE, "instance_type": "p5.48xlarge",
        "model": "H100-80", "gpus": 8, "price": Fraction(0), "fabric": "efa",
    }  # fmt: skip
    return Offering(name=name, capacity=capacity, **(told | other))


def error(code: str, status: int = 400, message: str = "said so") -> Said:
    told = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    body = f"<Response><Errors>{told}</Errors><RequestID>r</RequestID></Response>"
    return Said(status, body.encode(), {"Content-Type": "text/xml"})


@dataclass
class AwsWorld:
    """What the front knows beside moto."""

    moto: str = ""
    stock: int = 3
    faults: Faults = field(default_factory=Faults)
    by_token: dict[str, tuple[str, Said]] = field(default_factory=dict)
    spot_prices: dict[tuple[str, str], str] = field(default_factory=lambda: {("p5.48xlarge", ZONE): "12.10"})
    answers: dict[str, str] = field(default_factory=dict)
    """By action the inner XML of an answer that moto does not know."""
    short_by: int = 0
    """How many fewer than asked the next launch starts."""
    url: str = ""

    def client(self, service: str) -> Any:
        import boto3

        return boto3.client(service, region_name=REGION, endpoint_url=self.moto, **CREDENTIALS)

    def running(self) -> list[str]:
        found = self.client("ec2").describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return sorted(one["InstanceId"] for group in found["Reservations"] for one in group["Instances"])

    def config(self, *sales: AwsSale, **other: Any) -> AwsConfig:
        told: dict[str, Any] = {
            "name": "aws", "fleet": "f1", "region": REGION, "sales": sales or (self.sale(),), "endpoint_url": self.url,
            "credentials": CREDENTIALS, "refresh_prices": NEVER, "refresh_instances": NEVER,
        }  # fmt: skip
        return AwsConfig(**(told | other))

    def sale(self, sold: Offering | None = None, **other: Any) -> AwsSale:
        return AwsSale(sold or offering(), image=IMAGE, **other)

    def cloud(self, *sales: AwsSale, patience: float = 2.0, **other: Any) -> AwsCloud:
        asking = Asking(lambda e: translated("aws", e), patience=patience, sleep=lambda _: None)
        return AwsCloud(self.config(*sales, **other), SystemClock(), asking)


def on_demand_at(price: str, name: str = "on-demand-a") -> Quote:
    return Quote(name, Fraction(price), "a price file", datetime.now(UTC), timedelta(days=7))


def front_of(world: AwsWorld) -> type[Front]:
    class AwsFront(Front):
        faults = world.faults

        def named(self, method: str, path: str, body: bytes) -> str:
            target = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            return target or parse_qs(body.decode()).get("Action", [f"{method} {path}"])[0]

        def answered(self, heard: Heard) -> Said:
            return _answered(world, heard)

    return AwsFront


def _answered(world: AwsWorld, heard: Heard) -> Said:
    if heard.action in world.answers:
        return _xml(heard.action, world.answers[heard.action])
    asked = {key: values[0] for key, values in parse_qs(heard.body.decode()).items()}
    if heard.action == "DescribeSpotPriceHistory":
        return _spot_prices(world)
    if heard.action in ("RunInstances", "CreateFleet"):
        return _once_for_a_token(world, heard, asked)
    return _forwarded(world, heard)


def _once_for_a_token(world: AwsWorld, heard: Heard, asked: dict[str, str]) -> Said:
    """EC2's own promise, which moto does not keep."""
    token, rest = asked.pop("ClientToken"), repr(sorted(asked.items()))
    if token in world.by_token:
        before, said = world.by_token[token]
        return said if before == rest else error("IdempotentParameterMismatch")
    said = _launched(world, heard, asked)
    if said.status == 200:
        world.by_token[token] = (rest, said)
    return said


def _launched(world: AwsWorld, heard: Heard, asked: dict[str, str]) -> Said:
    fleet = heard.action == "CreateFleet"
    count = int(asked["TargetCapacitySpecification.TotalTargetCapacity" if fleet else "MaxCount"])
    if count + len(world.running()) > world.stock:
        return _no_fleet() if fleet else error("InsufficientInstanceCapacity", 500)
    if world.short_by:
        fewer, world.short_by = str(count - world.short_by), 0
        body = heard.body.decode()
        for key in ("MinCount", "MaxCount", "TargetCapacitySpecification.TotalTargetCapacity"):
            body = body.replace(f"{key}={count}", f"{key}={fewer}")
        heard = replace(heard, body=body.encode())
    return _forwarded(world, heard)


def _no_fleet() -> Said:
    return _xml(
        "CreateFleet",
        "<fleetId>fleet-0</fleetId><fleetInstanceSet/><errorSet><item><errorCode>InsufficientInstanceCapacity</errorCode>"
        "<errorMessage>none</errorMessage><lifecycle>spot</lifecycle></item></errorSet>",
    )


def _forwarded(world: AwsWorld, heard: Heard) -> Said:
    headers = {k: v for k, v in heard.headers.items() if k.lower() not in ("host", "content-length", "connection")}
    answer = httpx.request(heard.method, world.moto + heard.path, content=heard.body, headers=headers, timeout=20)
    kept = {
        k: v for k, v in answer.headers.items() if k.lower() in ("content-type", "x-amzn-requestid", "x-amzn-errortype")
    }
    return Said(answer.status_code, answer.content, kept)


def _spot_prices(world: AwsWorld) -> Said:
    rows = "".join(
        f"<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>2026-11-30T00:00:00.000Z</timestamp>"
        f"<availabilityZone>{zone}</availabilityZone></item>"
        for (kind, zone), price in world.spot_prices.items()
    )
    return _xml("DescribeSpotPriceHistory", f"<spotPriceHistorySet>{rows}</spotPriceHistorySet>")


def _xml(action: str, inner: str) -> Said:
    body = f'<{action}Response xmlns="{NAMESPACE}"><requestId>r</requestId>{inner}</{action}Response>'
    return Said(200, body.encode(), {"Content-Type": "text/xml"})


@contextmanager
def aws_world(**known: Any) -> Iterator[AwsWorld]:
    """moto and the front before it, on free ports of loopback."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    try:
        host, port = moto.get_host_and_port()
        world = AwsWorld(moto=f"http://{host}:{port}", **known)
        httpx.post(f"{world.moto}/moto-api/reset")
        with serving(front_of(world)) as url:
            world.url = url
            yield world
    finally:
        moto.stop()
