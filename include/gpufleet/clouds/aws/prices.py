"""EC2's prices: spot by its history in each zone, on demand by the Price List API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from gpufleet.clouds.asking import Asking
from gpufleet.clouds.aws.clients import Clients
from gpufleet.clouds.aws.config import AwsConfig
from gpufleet.clouds.shop import twins
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Quote

PRICE_LIST_REGION: Final = "us-east-1"
VALID_SPOT: Final = timedelta(hours=1)
VALID_ON_DEMAND: Final = timedelta(days=1)
LINUX: Final = "Linux/UNIX"


def spot_quotes(config: AwsConfig, clients: Clients, asking: Asking, now: datetime) -> tuple[Quote, ...]:
    """What each spot offering costs now in its zone: the last change, however long ago it was."""
    offerings = [s.offering for s in config.sales if s.offering.capacity is CapacityType.SPOT]
    if not offerings:
        return ()
    asked = {
        "InstanceTypes": sorted({o.instance_type for o in offerings}),
        "ProductDescriptions": [LINUX],
        "StartTime": now,
        "EndTime": now,
    }
    pages = clients("ec2").get_paginator("describe_spot_price_history").paginate(**asked)
    told = asking.ask(lambda: [row for page in pages for row in page["SpotPriceHistory"]])
    newest = _newest(told)
    return tuple(
        Quote(o.name, _price(newest.get((o.instance_type, o.zone))), "EC2 spot price history", now, VALID_SPOT)
        for o in offerings
    )


def _newest(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    by_time = sorted(rows, key=lambda row: row["Timestamp"])
    return {(row["InstanceType"], row["AvailabilityZone"]): row["SpotPrice"] for row in by_time}


def _price(text: str | None) -> Fraction | None:
    try:
        return Fraction(text) if text else None
    except ValueError:
        return None


def on_demand_quotes(config: AwsConfig, clients: Clients, asking: Asking, now: datetime) -> tuple[Quote, ...]:
    """List prices of what is sold on demand, and of what spot is compared with: shared tenancy, Linux."""
    sold = [sale.offering for sale in config.sales]
    offerings = [o for o in (*sold, *twins(sold)) if o.capacity is CapacityType.ON_DEMAND]
    found = {
        kind: _listed(config, clients, asking, kind)
        for kind in sorted({offering.instance_type for offering in offerings})
    }
    return tuple(_quote(offering, *found[offering.instance_type], now) for offering in offerings)


def _quote(offering: Offering, price: Fraction | None, gpus: int | None, now: datetime) -> Quote:
    return Quote(offering.name, price, "AWS Price List", now, VALID_ON_DEMAND, gpus=gpus)


def _listed(
    config: AwsConfig, clients: Clients, asking: Asking, instance_type: str
) -> tuple[Fraction | None, int | None]:
    wanted = {
        "instanceType": instance_type,
        "regionCode": config.region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    client = clients("pricing", PRICE_LIST_REGION)
    said = asking.ask(lambda: client.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=10))
    products = [json.loads(text) for text in said["PriceList"]]
    prices = {price for product in products for price in _hourly(product)}
    gpus = {str(product["product"]["attributes"].get("gpu", "")) for product in products}
    count = next(iter(gpus)) if len(gpus) == 1 else ""
    return (prices.pop() if len(prices) == 1 else None), (int(count) if count.isdigit() else None)


def _hourly(product: Mapping[str, Any]) -> Iterable[Fraction]:
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = Fraction(dimension["pricePerUnit"].get("USD", "0"))
            if dimension["unit"] == "Hrs" and price > 0:
                yield price
