"""Which prices may buy. Public catalogues are known to be wrong; a price with a doubt on it buys nothing. Pure.

The doubts are those that were found in real catalogues (SkyPilot's of mid-2026 for AWS, GCP and Azure): spot above
on-demand, spot equal to it where there was no capacity, a node with 12 GPUs, 700.0 as a sentinel, blank cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Final

from gpufleet.model.capacity import CapacityType, Offering

SENTINELS: Final = frozenset({Fraction(700), Fraction(9999), Fraction("0.00001")})
"""Values that stand for "unknown": TPU rows of a public catalogue, and what an emulator answers."""
LEAST_SHARE: Final = Fraction(5, 100)
"""Of on-demand. The cheapest real GPU spot prices seen were 11 %."""
AHEAD: Final = timedelta(minutes=5)
"""A price may come from a clock so far ahead of ours."""


class Doubt(StrEnum):
    """Why a price may not be used to buy."""

    MISSING = "missing"
    BLANK = "blank"
    SENTINEL = "sentinel"
    GPU_COUNT = "gpu-count"
    CURRENCY = "currency"
    STALE = "stale"
    ABOVE_ON_DEMAND = "above-on-demand"
    NO_DISCOUNT = "no-discount"
    TOO_CHEAP = "too-cheap"


@dataclass(frozen=True, slots=True)
class Quote:
    """A price as its source tells it, per instance-hour. `gpus` is what the source counts, where it does."""

    offering: str
    price: Fraction | None
    source: str
    fetched_at: datetime
    valid_for: timedelta
    currency: str = "USD"
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A price that buys nothing, and why, for the platform team."""

    doubt: Doubt
    detail: str


def doubt_of(offering: Offering, quote: Quote | None, on_demand: Fraction | None, now: datetime) -> Doubtful | None:
    """The first thing that is wrong with a price; None for one that may buy.

    `on_demand` is the same machine's price in the same region, None where nobody tells it: spot is not compared then.
    """
    if quote is None:
        return Doubtful(Doubt.MISSING, f"nobody tells a price of {offering.name}")
    if quote.price is None or quote.price <= 0:
        return Doubtful(Doubt.BLANK, f"{quote.source} has no price of {offering.name}")
    wrong = _unlikely(offering, quote, quote.price) or _old(quote, now)
    if wrong is None and offering.capacity is CapacityType.SPOT and on_demand is not None:
        wrong = _against(on_demand, quote.price)
    return wrong


def _unlikely(offering: Offering, quote: Quote, price: Fraction) -> Doubtful | None:
    if price in SENTINELS:
        return Doubtful(Doubt.SENTINEL, f"{float(price):g} stands for unknown in {quote.source}")
    if quote.gpus is not None and quote.gpus != offering.gpus:
        return Doubtful(Doubt.GPU_COUNT, f"{quote.source} counts {quote.gpus} GPUs, the machine has {offering.gpus}")
    if quote.currency != offering.currency:
        return Doubtful(Doubt.CURRENCY, f"{quote.source} is in {quote.currency}, the offering in {offering.currency}")
    return None


def _old(quote: Quote, now: datetime) -> Doubtful | None:
    if now - quote.fetched_at > quote.valid_for:
        return Doubtful(Doubt.STALE, f"fetched at {quote.fetched_at:%Y-%m-%d %H:%M}, valid for {quote.valid_for}")
    if quote.fetched_at - now > AHEAD:
        return Doubtful(Doubt.STALE, f"fetched at {quote.fetched_at:%Y-%m-%d %H:%M}, which is yet to come")
    return None


def _against(on_demand: Fraction, price: Fraction) -> Doubtful | None:
    told = f"spot {float(price):g}, on demand {float(on_demand):g}"
    if price > on_demand:
        return Doubtful(Doubt.ABOVE_ON_DEMAND, told)
    if price == on_demand:
        return Doubtful(Doubt.NO_DISCOUNT, f"{told}: no discount means no capacity")
    if price < on_demand * LEAST_SHARE:
        return Doubtful(Doubt.TOO_CHEAP, f"{told}: under {float(LEAST_SHARE * 100):g} %")
    return None


def priced(
    offerings: Iterable[Offering], quotes: Iterable[Quote], now: datetime
) -> tuple[tuple[Offering, Doubtful | None], ...]:
    """Each offering at its price; with a doubt it is not available, and keeps its price where it has one."""
    known, sold = {quote.offering: quote for quote in quotes}, tuple(offerings)
    on_demand = _on_demand(sold, known, now)
    found = []
    for offering in sold:
        quote = known.get(offering.name)
        doubt = doubt_of(offering, quote, on_demand.get(_machine(offering)), now)
        price = quote.price if quote is not None and quote.price is not None else offering.price
        found.append((replace(offering, price=price, available=offering.available and doubt is None), doubt))
    return tuple(found)


def _machine(offering: Offering) -> tuple[str, str, str]:
    return offering.cloud, offering.region, offering.instance_type


def _on_demand(
    sold: tuple[Offering, ...], known: Mapping[str, Quote], now: datetime
) -> dict[tuple[str, str, str], Fraction]:
    """By machine its sane on-demand price, the highest where zones differ."""
    found: dict[tuple[str, str, str], Fraction] = {}
    for offering in sold:
        quote = known.get(offering.name)
        if offering.capacity is not CapacityType.ON_DEMAND or quote is None or quote.price is None:
            continue
        if doubt_of(offering, quote, None, now) is None:
            found[_machine(offering)] = max(quote.price, found.get(_machine(offering), quote.price))
    return found
