"""When owned hardware has paid for itself: worked cases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from gpufleet.procurement.break_even import (
    Hardware,
    Ownership,
    Part,
    Pay,
    Running,
    break_even,
    paid_back,
)
from gpufleet.procurement.sensitivity import claim, sensitivity

F = Fraction

ON_DEMAND = Part("on-demand", F(1), F("6.88"), Pay.USE)
NODE = Ownership(
    currency="USD",
    hardware=Hardware(1, 8, F(325_000), F("0.125"), F(0), F(0)),
    running=Running(F("10.2"), F(200), True, F(1), F(0), F("0.15"), F(1500), F(0)),
    utilisation=F("0.8"),
    discount=F(0),
    hours_per_month=F(730),
    decline=F(0),
    mix=(ON_DEMAND,),
    horizon=60,
)
"""One node of 8 H100 against p5.48xlarge on demand, as published calculations have it."""

RESERVED = Part("reserved", F(1), F("4.30"), Pay.COMMITTED)
MIX = (
    replace(RESERVED, share=F("0.5")),
    Part("spot", F("0.35"), F("1.82"), Pay.USE),
    replace(ON_DEMAND, share=F("0.15")),
)

CASES = {
    "used four hours in five, 15 months": (NODE, 15, "14.90"),
    "always busy, within the year": (replace(NODE, utilisation=F(1)), 12, "11.22"),
    "half idle, it must be sweated": (replace(NODE, utilisation=F("0.4")), 44, "43.17"),
    "against a year reserved, which is paid for idle hours too": (replace(NODE, mix=(RESERVED,)), 21, "20.88"),
    "against what one would really buy": (replace(NODE, mix=MIX), 29, "28.67"),
    "against spot, never": (replace(NODE, mix=(replace(ON_DEMAND, per_gpu_hour=F("1.81875")),)), None, None),
    "a horizon that ends just before": (replace(NODE, horizon=14), None, None),
    "nothing paid at the start, at once": (
        replace(NODE, hardware=replace(NODE.hardware, salvage=F(1), network=F(0))),
        1,
        "0.00",
    ),
}


@pytest.mark.parametrize(("asked", "month", "months"), CASES.values(), ids=CASES)
def test_the_month_in_which_owning_is_paid_back(asked: Ownership, month: int | None, months: str | None) -> None:
    found = break_even(asked)
    assert found.month == month
    assert (found.months is None) == (months is None)
    assert months is None or abs(found.months - F(months)) <= F("0.005")


def test_power_is_paid_on_top_where_colocation_does_not_include_it() -> None:
    running = replace(NODE.running, colocation_includes_power=False, pue=F("1.3"), power_per_kwh=F("0.09"))
    more = break_even(replace(NODE, running=running)).own_per_month - break_even(NODE).own_per_month
    assert more == F("10.2") * F("1.3") * 730 * F("0.09")


def test_salvage_counts_at_its_present_value() -> None:
    sold = replace(NODE, hardware=replace(NODE.hardware, salvage=F("0.25")), discount=F("0.12"), horizon=36)
    assert break_even(sold).capital == F("365625") - F("81250") / F("1.01") ** 36


def test_the_cloud_gets_cheaper_at_each_full_year() -> None:
    curve = break_even(replace(NODE, decline=F("0.1"))).curve
    rented = [after.cloud - before.cloud for before, after in pairwise(curve)]
    assert rented[11] == rented[0] and rented[12] == rented[0] * F("0.9") and rented[24] == rented[0] * F("0.81")


def test_the_claim_names_the_use_it_needs() -> None:
    told = claim(NODE, break_even(NODE))
    assert told.holds and told.utilisation_for_first is not None
    assert break_even(replace(NODE, utilisation=told.utilisation_for_first)).months == 12
    assert (
        claim(replace(NODE, mix=(RESERVED,)), break_even(replace(NODE, mix=(RESERVED,)))).utilisation_for_last is None
    )


def test_every_input_is_turned_through_its_values_with_the_given_one_among_them() -> None:
    turned = sensitivity(replace(NODE, utilisation=F("0.75")))
    for name in {one.input for one in turned}:
        rows = [one for one in turned if one.input == name]
        assert [one.value for one in rows] == sorted(one.value for one in rows)
        assert [(one.month, one.months) for one in rows if one.is_given] == [
            paid_back(replace(NODE, utilisation=F("0.75")))
        ]
    assert {one.value for one in turned if one.input == "utilisation"} >= {F("0.4"), F("0.75"), F(1)}
