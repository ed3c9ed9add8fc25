"""Owned hardware against the cloud one would really rent, month by month. Pure and exact.

Money in whole units of the file's currency, shares and rates as fractions of 1, time in months counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Final

MONTHS_PER_YEAR: Final = 12
ZERO: Final = Fraction(0)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is bought at the start. `network` is paid on top of the servers' price, `salvage` is what part of it the
    servers bring at the horizon."""

    servers: int
    gpus_per_server: int
    price_per_server: Fraction
    network: Fraction
    install: Fraction
    salvage: Fraction

    @property
    def servers_price(self) -> Fraction:
        return self.servers * self.price_per_server

    @property
    def gpus(self) -> int:
        return self.servers * self.gpus_per_server


@dataclass(frozen=True, slots=True)
class Running:
    """What owning costs each month. `pue` and `power_per_kwh` count only where colocation does not include power;
    `support` is a part of the servers' price a year."""

    kw_per_server: Fraction
    colocation_per_kw_month: Fraction
    colocation_includes_power: bool
    pue: Fraction
    power_per_kwh: Fraction
    support: Fraction
    staff_per_month: Fraction
    other_per_month: Fraction


class Pay(StrEnum):
    """For which hours a part of the cloud is paid."""

    USE = "use"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the cloud mix: `share` of the GPUs at `per_gpu_hour`."""

    name: str
    share: Fraction
    per_gpu_hour: Fraction
    pay: Pay


@dataclass(frozen=True, slots=True)
class Ownership:
    """The whole question. `decline` is how much cheaper the cloud gets at each full year, `discount` the nominal rate
    a year (a twelfth of it a month)."""

    currency: str
    hardware: Hardware
    running: Running
    utilisation: Fraction
    discount: Fraction
    hours_per_month: Fraction
    decline: Fraction
    mix: tuple[Part, ...]
    horizon: int


@dataclass(frozen=True, slots=True)
class Month:
    """Where both stand after month `number`, all of it so far, owned with its capital (0: only the capital is paid);
    as money, and as present values."""

    number: int
    own: Fraction
    cloud: Fraction
    own_present: Fraction
    cloud_present: Fraction


@dataclass(frozen=True, slots=True)
class BreakEven:
    """`month`: the first whole month after which the cloud has cost as much; `months`: the same inside the month, in a
    straight line; None where the horizon ends first. `capital` is after salvage, monthly amounts are month 1's."""

    month: int | None
    months: Fraction | None
    capital: Fraction
    own_per_month: Fraction
    cloud_per_month: Fraction
    curve: tuple[Month, ...]


def break_even(asked: Ownership) -> BreakEven:
    """When owning has paid for itself against the mix."""
    curve = tuple(_curve(asked))
    month, months = _crossing(curve)
    return BreakEven(
        month=month,
        months=months,
        capital=capital(asked),
        own_per_month=own_per_month(asked),
        cloud_per_month=cloud_in(asked, 1),
        curve=curve,
    )


def paid_back(asked: Ownership) -> tuple[int | None, Fraction | None]:
    """Only the month and the months of the break-even: no month after it is looked at."""
    return _crossing(_curve(asked))


def capital(asked: Ownership) -> Fraction:
    """Paid at the start, less what the servers bring at the horizon (at its present value)."""
    bought = asked.hardware.servers_price * (1 + asked.hardware.network) + asked.hardware.install
    return bought - asked.hardware.salvage * asked.hardware.servers_price * _monthly_worth(asked) ** asked.horizon


def own_per_month(asked: Ownership) -> Fraction:
    """Room, power, support, people."""
    running, hardware = asked.running, asked.hardware
    kilowatts = hardware.servers * running.kw_per_server
    power = ZERO
    if not running.colocation_includes_power:
        power = kilowatts * running.pue * asked.hours_per_month * running.power_per_kwh
    support = running.support * hardware.servers_price / MONTHS_PER_YEAR
    room = kilowatts * running.colocation_per_kw_month
    return room + power + support + running.staff_per_month + running.other_per_month


def cloud_in(asked: Ownership, month: int) -> Fraction:
    """What the mix costs in one month, as the price of that year is."""
    return (asked.utilisation * _used_rate(asked) + _committed_rate(asked)) * _price_level(asked, month)


def utilisation_for(asked: Ownership, month: int) -> Fraction | None:
    """The share of hours that must be used for owning to be paid back exactly after `month` months; None where no use
    does it (nothing of the mix is paid by use), or more than all the hours would be needed. Never below 0."""
    worth = _monthly_worth(asked)
    levels = sum((_price_level(asked, m) * worth**m for m in range(1, month + 1)), ZERO)
    own = capital(asked) + own_per_month(asked) * sum((worth**m for m in range(1, month + 1)), ZERO)
    paid_by_use = _used_rate(asked) * levels
    if not paid_by_use:
        return None
    needed = max(ZERO, (own - _committed_rate(asked) * levels) / paid_by_use)
    return needed if needed <= 1 else None


def _used_rate(asked: Ownership) -> Fraction:
    return _rate(asked, Pay.USE)


def _committed_rate(asked: Ownership) -> Fraction:
    return _rate(asked, Pay.COMMITTED)


def _rate(asked: Ownership, pay: Pay) -> Fraction:
    """A full month of all GPUs at the prices of the mix's parts that are paid so."""
    price = sum((part.share * part.per_gpu_hour for part in asked.mix if part.pay is pay), ZERO)
    return asked.hours_per_month * asked.hardware.gpus * price


def _price_level(asked: Ownership, month: int) -> Fraction:
    return (1 - asked.decline) ** ((month - 1) // MONTHS_PER_YEAR)


def _monthly_worth(asked: Ownership) -> Fraction:
    """What money a month later is worth."""
    return 1 / (1 + asked.discount / MONTHS_PER_YEAR)


def _curve(asked: Ownership) -> Iterator[Month]:
    worth, own_monthly, worth_now = _monthly_worth(asked), own_per_month(asked), Fraction(1)
    own = own_present = capital(asked)
    cloud = cloud_present = ZERO
    yield Month(0, own, cloud, own_present, cloud_present)
    for number in range(1, asked.horizon + 1):
        worth_now *= worth
        rented = cloud_in(asked, number)
        own, cloud = own + own_monthly, cloud + rented
        own_present, cloud_present = own_present + own_monthly * worth_now, cloud_present + rented * worth_now
        yield Month(number, own, cloud, own_present, cloud_present)


def _crossing(curve: Iterable[Month]) -> tuple[int | None, Fraction | None]:
    for before, after in pairwise(curve):
        if after.cloud_present >= after.own_present:
            return after.number, _inside(before, after)
    return None, None


def _inside(before: Month, after: Month) -> Fraction:
    """Months until the lines cross, straight inside the month."""
    gap = before.own_present - before.cloud_present
    if not gap:  # only where nothing was paid at the start
        return Fraction(before.number)
    return before.number + gap / (gap - (after.own_present - after.cloud_present))
