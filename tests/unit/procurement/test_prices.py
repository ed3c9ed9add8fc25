"""A price with a doubt on it buys nothing; the doubts are those that were found in real catalogues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Doubt, Quote, doubt_of, priced

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ON_DEMAND = Fraction("55.04")


def sold(name: str = "spot", capacity: CapacityType = CapacityType.SPOT, **other: Any) -> Offering:
    told: dict[str, Any] = {"cloud": "aws", "region": "r", "zone": "r-a", "instance_type": "p5.48xlarge"}
    return Offering(
        name=name, capacity=capacity, **(told | {"model": "H100-80", "gpus": 8, "price": Fraction(0)} | other)
    )


def quote(price: str | None = "14.55", name: str = "spot", **other: Any) -> Quote:
    told: dict[str, Any] = {"source": "a catalogue", "fetched_at": NOW, "valid_for": timedelta(hours=1)}
    return Quote(name, Fraction(price) if price else None, **(told | other))


FOUND = {
    "a median spot price is fine": (quote(), None),
    "spot above on-demand (GCP, H200)": (quote("60"), Doubt.ABOVE_ON_DEMAND),
    "spot equal to on-demand, where there was none to be had (7 of 29 zones of p5)": (
        quote("55.04"),
        Doubt.NO_DISCOUNT,
    ),
    "12 GPUs in a machine of eight (Azure ND96isr_H100_v5)": (quote(gpus=12), Doubt.GPU_COUNT),
    "700.0 an hour, which stands for unknown": (quote("700.0"), Doubt.SENTINEL),
    "a blank cell (p5e)": (quote(None), Doubt.BLANK),
    "zero": (quote("0"), Doubt.BLANK),
    "under five per cent of on-demand": (quote("2.75"), Doubt.TOO_CHEAP),
    "exactly five per cent": (quote("2.752"), None),
    "older than it is valid": (quote(fetched_at=NOW - timedelta(hours=2)), Doubt.STALE),
    "as old as it is valid": (quote(fetched_at=NOW - timedelta(hours=1)), None),
    "from tomorrow": (quote(fetched_at=NOW + timedelta(days=1)), Doubt.STALE),
    "in another currency": (quote(currency="EUR"), Doubt.CURRENCY),
}


@pytest.mark.parametrize(("found", "want"), FOUND.values(), ids=FOUND)
def test_what_is_wrong_with_a_price(found: Quote, want: Doubt | None) -> None:
    doubt = doubt_of(sold(), found, ON_DEMAND, NOW)
    assert (doubt.doubt if doubt else None) == want
    assert doubt is None or doubt.detail


def test_nobody_tells_a_price() -> None:
    doubt = doubt_of(sold(), None, ON_DEMAND, NOW)
    assert doubt is not None and doubt.doubt is Doubt.MISSING


def test_offerings_get_their_prices_and_doubtful_ones_are_not_for_sale() -> None:
    offerings = sold(), sold("other", zone="r-b"), sold("od", CapacityType.ON_DEMAND)
    quotes = quote(), quote("55.04", "other"), quote("55.04", "od")
    found = {offering.name: (offering.price, offering.available) for offering, _ in priced(offerings, quotes, NOW)}
    assert found == {
        "spot": (Fraction("14.55"), True),
        "other": (ON_DEMAND, False),
        "od": (ON_DEMAND, True),
    }


def test_a_doubtful_on_demand_price_judges_nobody() -> None:
    offerings = sold(), sold("od", CapacityType.ON_DEMAND)
    found = priced(offerings, (quote("900"), quote("700", "od")), NOW)
    assert [offering.available for offering, _ in found] == [True, False]


@given(price=st.fractions(min_value=0, max_value=1000), age=st.integers(0, 7200))
def test_what_may_buy_is_fresh_and_between_five_per_cent_and_on_demand(price: Fraction, age: int) -> None:
    found = Quote("spot", price, "x", NOW - timedelta(seconds=age), timedelta(hours=1))
    if doubt_of(sold(), found, ON_DEMAND, NOW) is None:
        assert ON_DEMAND * Fraction(5, 100) <= price < ON_DEMAND
        assert age <= 3600
