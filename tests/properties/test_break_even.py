"""Break-even against a sum that knows no algebra: every bill discounted by itself, month by month."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.procurement.break_even import Hardware, Ownership, Part, Pay, Running, break_even, utilisation_for

F = Fraction
MONEY = st.fractions(min_value=0, max_value=100_000, max_denominator=100)
SHARE = st.fractions(min_value=0, max_value=1, max_denominator=100)


@st.composite
def questions(draw: st.DrawFn) -> Ownership:
    first = draw(SHARE)
    mix = tuple(
        Part(name, share, draw(st.fractions(0, 15, max_denominator=100)), draw(st.sampled_from(Pay)))
        for name, share in (("a", first), ("b", 1 - first))
    )
    running = Running(
        kw_per_server=draw(SHARE) * 20,
        colocation_per_kw_month=draw(MONEY) / 500,
        colocation_includes_power=draw(st.booleans()),
        pue=1 + draw(SHARE),
        power_per_kwh=draw(SHARE),
        support=draw(SHARE),
        staff_per_month=draw(MONEY) / 50,
        other_per_month=F(0),
    )
    hardware = Hardware(
        draw(st.integers(1, 3)), draw(st.integers(1, 8)), draw(MONEY), draw(SHARE), draw(MONEY), draw(SHARE)
    )
    return Ownership(
        currency="USD",
        hardware=hardware,
        running=running,
        utilisation=draw(SHARE),
        discount=draw(SHARE) / 4,
        hours_per_month=F(730),
        decline=draw(SHARE) / 2,
        mix=mix,
        horizon=draw(st.integers(1, 30)),
    )


def slow_balance(asked: Ownership, months: int) -> Fraction:
    """Owned less cloud after so many months."""
    h, r = asked.hardware, asked.running
    rate = 1 + asked.discount / 12
    balance = h.servers * h.price_per_server * (1 + h.network) + h.install
    balance -= h.salvage * h.servers * h.price_per_server / rate**asked.horizon
    for m in range(1, months + 1):
        own = h.servers * r.kw_per_server * r.colocation_per_kw_month + r.staff_per_month + r.other_per_month
        own += r.support * h.servers * h.price_per_server / 12
        if not r.colocation_includes_power:
            own += h.servers * r.kw_per_server * r.pue * asked.hours_per_month * r.power_per_kwh
        cloud = F(0)
        for part in asked.mix:
            hours = asked.hours_per_month * h.gpus * part.share * (asked.utilisation if part.pay is Pay.USE else 1)
            cloud += hours * part.per_gpu_hour * (1 - asked.decline) ** ((m - 1) // 12)
        balance += (own - cloud) / rate**m
    return balance


@given(questions())
def test_the_break_even_is_where_a_sum_bill_by_bill_turns(asked: Ownership) -> None:
    found = break_even(asked)
    slow = [slow_balance(asked, m) for m in range(asked.horizon + 1)]
    assert found.month == next((m for m in range(1, asked.horizon + 1) if slow[m] <= 0), None)
    assert [m.own_present - m.cloud_present for m in found.curve] == slow
    assert (found.month is None) == (found.months is None)
    if found.month is not None and found.months is not None:
        assert found.month - 1 <= found.months <= found.month


@given(questions(), st.integers(1, 30))
def test_the_use_that_is_named_for_a_month_pays_back_exactly_then(asked: Ownership, month: int) -> None:
    needed = utilisation_for(asked, month)
    if needed:
        assert slow_balance(replace(asked, utilisation=needed), month) == 0
