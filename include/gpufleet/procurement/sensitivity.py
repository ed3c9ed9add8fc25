"""What the break-even hangs on: one input changed at a time, all others as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from gpufleet.procurement.break_even import BreakEven, Ownership, paid_back, utilisation_for

CLAIM: Final = (12, 18)
"""Months within which owned hardware is typically said to have paid for itself."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input to turn through `values`. Of a factor the given value is 1."""

    name: str
    values: tuple[Fraction, ...]
    given: Callable[[Ownership], Fraction]
    changed: Callable[[Ownership, Fraction], Ownership]


@dataclass(frozen=True, slots=True)
class Turned:
    """The answer with one input at another value; `is_given` where it is the question's own."""

    input: str
    value: Fraction
    is_given: bool
    month: int | None
    months: Fraction | None


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the claim holds, and at which utilisation the break-even comes at its first and its last month (None:
    not even with every hour used, or no use changes it)."""

    holds: bool
    utilisation_for_first: Fraction | None
    utilisation_for_last: Fraction | None


def in_claim(months: Fraction | None) -> bool:
    return months is not None and CLAIM[0] <= months <= CLAIM[1]


def claim(asked: Ownership, found: BreakEven) -> Claim:
    """The claim against this question."""
    first, last = (utilisation_for(asked, month) for month in CLAIM)
    return Claim(in_claim(found.months), first, last)


def sensitivity(asked: Ownership) -> tuple[Turned, ...]:
    """Input by input, each through its values upwards, the given one among them."""
    return tuple(turned for row in INPUTS for turned in _turn(asked, row))


def _turn(asked: Ownership, row: Input) -> Iterator[Turned]:
    given = row.given(asked)
    for value in sorted({*row.values, given}):
        yield Turned(row.name, value, value == given, *paid_back(row.changed(asked, value)))


def _percent(*values: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(value, 100) for value in values)


def _factor_one(_asked: Ownership) -> Fraction:
    return Fraction(1)


def _cloud_price(asked: Ownership, factor: Fraction) -> Ownership:
    mix = tuple(replace(part, per_gpu_hour=part.per_gpu_hour * factor) for part in asked.mix)
    return replace(asked, mix=mix)


def _server_price(asked: Ownership, factor: Fraction) -> Ownership:
    hardware = asked.hardware
    return replace(asked, hardware=replace(hardware, price_per_server=hardware.price_per_server * factor))


def _salvage(asked: Ownership, part: Fraction) -> Ownership:
    return replace(asked, hardware=replace(asked.hardware, salvage=part))


def _staff(asked: Ownership, factor: Fraction) -> Ownership:
    return replace(asked, running=replace(asked.running, staff_per_month=asked.running.staff_per_month * factor))


def _power(asked: Ownership, factor: Fraction) -> Ownership:
    running = asked.running
    return replace(
        asked,
        running=replace(
            running,
            colocation_per_kw_month=running.colocation_per_kw_month * factor,
            power_per_kwh=running.power_per_kwh * factor,
        ),
    )


INPUTS: Final = (
    Input(
        "utilisation",
        _percent(40, 50, 60, 70, 80, 90, 100),
        lambda asked: asked.utilisation,
        lambda asked, value: replace(asked, utilisation=value),
    ),
    Input("cloud price, times", _percent(50, 70, 80, 90, 110, 120, 130), _factor_one, _cloud_price),
    Input(
        "cloud price decline per year",
        _percent(0, 5, 10, 15, 20),
        lambda asked: asked.decline,
        lambda asked, value: replace(asked, decline=value),
    ),
    Input("server price, times", _percent(80, 90, 110, 120, 130), _factor_one, _server_price),
    Input("salvage fraction", _percent(0, 10, 20, 30), lambda asked: asked.hardware.salvage, _salvage),
    Input(
        "discount rate per year",
        _percent(0, 4, 8, 12),
        lambda asked: asked.discount,
        lambda asked, value: replace(asked, discount=value),
    ),
    Input("staff, times", _percent(0, 50, 200, 400), _factor_one, _staff),
    Input("colocation and power, times", _percent(50, 75, 125, 150), _factor_one, _power),
)
"""Ranges of published calculations: use from 40 % (a busy research cluster) to all hours, clouds that got 0 to 20 %
cheaper a year, resale of 25 to 35 % after three years, capital at 0 to 12 %."""
