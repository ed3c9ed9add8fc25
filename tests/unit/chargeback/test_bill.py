"""The door of the room: what it refuses, how it rounds, that it is quick enough for a big day."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest

from gpufleet.chargeback import bill
from gpufleet.chargeback.conservation import faults, up_time
from gpufleet.chargeback.currencies import MINOR_UNITS
from gpufleet.chargeback.days import HOUR, micros
from gpufleet.chargeback.rates import Commitment, IdlePolicy, Price, Rates
from gpufleet.chargeback.statement import deal, half_up
from gpufleet.errors import Invalid
from gpufleet.model.usage import Allocated, NodeUp, Released, UsageEvent

DAY, NEXT = date(2026, 3, 10), date(2026, 3, 11)
MIDNIGHT = datetime(2026, 3, 10, tzinfo=UTC)
RATES = Rates("USD", (Price({}, per_gpu_hour=Fraction(3)),))


def test_the_window_must_not_be_empty() -> None:
    with pytest.raises(Invalid, match="2026-03-10 must be before --to 2026-03-10"):
        bill([], RATES, DAY, DAY)


@pytest.mark.parametrize("by", [("project",), ("project", "team"), ("team", "job"), ()])
def test_other_groupings_are_refused(by: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="--by"):
        bill([], RATES, DAY, NEXT, by=by)


def test_nothing_is_a_bill_too() -> None:
    found = bill([], RATES, DAY, NEXT)
    assert (found.lines, found.total, found.quarantined) == ((), 0, ())


def test_a_unit_left_over_goes_to_the_largest_remainder_then_in_the_order_of_the_list() -> None:
    assert deal(10_000, [Fraction(1)] * 3) == [3334, 3333, 3333]
    assert deal(3, [Fraction(1, 3), Fraction(2, 3)]) == [1, 2]
    assert deal(2, [Fraction(0), Fraction(1, 2), Fraction(1, 2), Fraction(1, 2)]) == [0, 1, 1, 0]
    assert deal(0, [Fraction(0)]) == [0]


def test_halves_go_up() -> None:
    assert [half_up(Fraction(n, 2)) for n in range(5)] == [0, 1, 1, 2, 2]


def test_currencies_have_the_decimals_of_iso_4217() -> None:
    assert [MINOR_UNITS[c] for c in ("USD", "EUR", "JPY", "KRW", "KWD", "TND", "CLF")] == [2, 2, 0, 0, 3, 3, 4]
    assert {"BTC", "XAU", "usd", ""}.isdisjoint(MINOR_UNITS)


# ---------------------------------------------------------------- the second look


def held_all_day() -> list[UsageEvent]:
    return [
        NodeUp("up", MIDNIGHT, "n", "H100-80", 8, "owned"),
        Allocated("a", MIDNIGHT, "n", "j", 1, "vision", "seg", 0),
    ]


def test_the_second_look_finds_nothing_in_a_sound_bill() -> None:
    assert list(faults(bill(held_all_day(), RATES, DAY, NEXT), held_all_day(), RATES)) == []


def test_the_second_look_sees_a_cent_too_much_and_an_hour_too_few() -> None:
    sound = bill(held_all_day(), RATES, DAY, NEXT)
    assert "the total is" in next(faults(replace(sound, total=sound.total + 1), held_all_day(), RATES))
    short = replace(sound, idle_hours=sound.idle_hours - 1)
    assert "the nodes were up for 192 GPU-hours" in next(faults(short, held_all_day(), RATES))


def test_of_nodes_nobody_announced_the_second_look_says_nothing() -> None:
    events = held_all_day()[1:]
    assert up_time(events, micros(MIDNIGHT), micros(MIDNIGHT) + HOUR) is None
    assert list(faults(bill(events, RATES, DAY, NEXT), events, RATES)) == []


# ---------------------------------------------------------------- a big day


def test_a_big_day_is_quick() -> None:
    """20,000 events with every policy on; the bound is some times what it takes, so that only a square breaks it."""
    events: list[UsageEvent] = []
    for n in range(100):
        events.append(NodeUp(f"up{n}", MIDNIGHT, f"n{n}", "H100-80", 8, "owned"))
        for i in range(100):
            at = MIDNIGHT + timedelta(minutes=14 * (i // 8), seconds=n + i)
            job = f"j{n}-{i}"
            events.append(Allocated(f"a{job}", at, f"n{n}", job, 1, f"t{n % 20}", f"p{i % 3}", i % 8, priority=i % 5))
            events.append(Released(f"r{job}", at + timedelta(minutes=13), f"n{n}", job, 1, i % 8))
    rates = replace(
        RATES,
        idle=IdlePolicy.QUOTA_HOLDERS,
        quota={f"t{i}": Fraction(20 * i) for i in range(20)},
        commitments=tuple(
            Commitment(f"c{i}", "platform", {}, 200, MIDNIGHT, MIDNIGHT + timedelta(days=1), Fraction(100))
            for i in range(3)
        ),
    )
    began = time.process_time()
    found = bill(events, rates, DAY, NEXT)
    assert time.process_time() - began < 20
    assert len(found.lines) == 60
    assert list(faults(found, events, rates)) == []
