"""Azure's Retail Prices API: plain JSON over HTTP, without credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

import httpx

from gpufleet.clouds.asking import ANSWER_SECONDS, Asking
from gpufleet.clouds.azure.config import AzureConfig
from gpufleet.clouds.base import NotAnswered
from gpufleet.clouds.shop import twins
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Quote

VALID: Final = timedelta(days=1)
MOST_PAGES: Final = 20
NOT_OURS: Final = ("Windows", "Low Priority")
"""Words in the name of a product or a SKU whose price is another thing's."""


def retail_quotes(config: AzureConfig, asking: Asking, now: datetime) -> tuple[Quote, ...]:
    """Spot and on-demand prices of what is sold, Linux, pay as you go."""
    priced = (CapacityType.SPOT, CapacityType.ON_DEMAND)
    sold = [sale.offering for sale in config.sales]
    offerings = [offering for offering in (*sold, *twins(sold)) if offering.capacity in priced]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for kind in sorted({offering.instance_type for offering in offerings}):
        found[kind] = asking.ask(lambda kind=kind: list(_items(config, kind)))  # type: ignore[misc]
    return tuple(_quote(offering, found[offering.instance_type], now) for offering in offerings)


def _items(config: AzureConfig, kind: str) -> Iterator[Mapping[str, Any]]:
    wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{config.region}' and armSkuName eq '{kind}'"
    url: str | None = str(
        httpx.URL(config.retail_prices, params={"$filter": f"{wanted} and priceType eq 'Consumption'"})
    )
    for _ in range(MOST_PAGES):
        if not url:
            return
        page = _page(config.name, url)
        yield from page.get("Items", ())
        url = page.get("NextPageLink")


def _page(cloud: str, url: str) -> Mapping[str, Any]:
    try:
        answer = httpx.get(url, timeout=ANSWER_SECONDS, trust_env=True).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as e:
        raise NotAnswered(f"Cloud {cloud} tells no prices: {type(e).__name__}.") from None
    return answer if isinstance(answer, dict) else {}


def _quote(offering: Offering, items: list[Mapping[str, Any]], now: datetime) -> Quote:
    spot = offering.capacity is CapacityType.SPOT
    named = [f"{item.get('productName', '')} {item.get('skuName', '')}" for item in items]
    kept = [
        item
        for item, name in zip(items, named, strict=True)
        if ("Spot" in name) is spot and not any(word in name for word in NOT_OURS)
    ]
    prices = {Fraction(str(item["retailPrice"])) for item in kept if item.get("unitOfMeasure") == "1 Hour"}
    currency = next((str(item.get("currencyCode", "USD")) for item in kept), "USD")
    price = prices.pop() if len(prices) == 1 else None  # two prices for one thing: neither is believed
    return Quote(offering.name, price, "Azure Retail Prices", now, VALID, currency)
