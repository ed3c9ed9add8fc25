"""Which price counts when, and what an hour of a commitment costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.chargeback.days import FOREVER, HOUR, micros
from gpufleet.chargeback.pricing import PriceList, Rate, phases
from gpufleet.chargeback.rates import Commitment, Price
from gpufleet.model.usage import NodeUp

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
UP = NodeUp("up", NOON, "n1", "H100-80", 8, "spot", "aws", "east")
ONE, TWO = Fraction(1), Fraction(2)
T = micros(NOON)


def test_the_first_entry_in_force_counts_and_pieces_of_one_price_are_one() -> None:
    prices = PriceList(
        [
            Price({"model": "T4-16"}, per_gpu_hour=Fraction(99)),
            Price({"capacity": "spot"}, per_node_hour=Fraction(8), begin=NOON, end=NOON + timedelta(hours=1)),
            Price({"node": "n1"}, per_gpu_hour=ONE, begin=NOON + timedelta(hours=1), end=NOON + timedelta(hours=2)),
            Price({"region": "east"}, per_gpu_hour=TWO, begin=NOON),
        ]
    )
    assert prices.rates("n1", UP) == (
        Rate(-FOREVER, T, None),
        Rate(T, T + 2 * HOUR, ONE),
        Rate(T + 2 * HOUR, FOREVER, TWO),
    )
    assert prices.rates("n2", UP)[1:] == (Rate(T, T + HOUR, ONE), Rate(T + HOUR, FOREVER, TWO))


def test_a_node_never_announced_matches_by_name_or_not_at_all() -> None:
    prices = PriceList(
        [Price({"model": "H100-80"}, per_gpu_hour=ONE), Price({}, per_node_hour=TWO), Price({}, per_gpu_hour=TWO)]
    )
    assert prices.rates("n1", None) == (Rate(-FOREVER, FOREVER, None),), "the node price fits first and has no size"


@pytest.mark.parametrize(
    ("upfront", "hours", "each", "last"),
    [
        ("8760", 8784, "0.997267759", "0.997272703"),
        ("1", 3, "0.333333333", "0.333333334"),
        ("0.000000001", 2, "0", "0.000000001"),
        ("5", 1, None, "5"),
    ],
)
def test_upfront_is_cut_to_nine_decimals_an_hour(upfront: str, hours: int, each: str | None, last: str) -> None:
    found = phases(Commitment("c", "platform", {}, 1, NOON, NOON + timedelta(hours=hours), Fraction(upfront)))
    assert [p.rate for p in found] == [Fraction(r) for r in (each, last) if r is not None]
    assert found[-1].end - found[-1].begin == HOUR
    assert sum(p.rate * (p.end - p.begin) / HOUR for p in found) == Fraction(upfront)


def test_a_rate_is_for_one_gpu_of_the_commitment() -> None:
    (term,) = phases(Commitment("c", "platform", {}, 8, NOON, NOON + timedelta(hours=1), Fraction(8), Fraction("0.5")))
    assert term.rate == Fraction("1.5")
