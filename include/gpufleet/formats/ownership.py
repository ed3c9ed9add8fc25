"""The file of `gpufleet break-even` to frozen facts; every error names file, line, path and key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

from gpufleet.chargeback.currencies import MINOR_UNITS
from gpufleet.formats.cell import Cell, Fields, read, read_text, unique
from gpufleet.formats.rates import amount
from gpufleet.procurement.break_even import Hardware, Ownership, Part, Pay, Running

KEYS: Final = (
    "version", "currency", "hardware", "running", "utilisation", "discount_rate_per_year", "cloud", "horizon_months",
)  # fmt: skip
HARDWARE: Final = (
    "servers", "gpus_per_server", "price_per_server", "network_fraction", "install", "salvage_fraction",
)  # fmt: skip
RUNNING: Final = (
    "kw_per_server", "colocation_per_kw_month", "colocation_includes_power", "pue", "power_per_kwh",
    "support_fraction_per_year", "staff_per_month", "other_per_month",
)  # fmt: skip
CLOUD: Final = ("hours_per_month", "price_decline_per_year", "mix")
PART: Final = ("name", "share", "per_gpu_hour", "pay")

MOST_MONEY: Final = 10**12
"""Above any price there is: a slip of the keyboard."""
MOST_MONTHS: Final = 360
RATE_DIGITS: Final = 10
LONGEST_MONTH: Final = 744
"""Hours of 31 days."""


def load_ownership(path: Path) -> Ownership:
    """The question of a file; raises Invalid (or NotFound) that names file, line and key."""
    return read_ownership(read_text(path), str(path))


def read_ownership(text: str, file: str) -> Ownership:
    fields = read(text, file).fields(KEYS)
    if fields["version"].text() != "1":
        raise fields["version"].wrong(f"version {fields['version'].shown} is not known; it is 1.")
    cloud = fields["cloud"].fields(CLOUD)
    return Ownership(
        currency=_currency(fields["currency"]),
        hardware=_hardware(fields["hardware"].fields(HARDWARE)),
        running=_running(fields["running"].fields(RUNNING)),
        utilisation=_part_of_one(fields["utilisation"]),
        discount=_rate(fields["discount_rate_per_year"]),
        hours_per_month=_hours(cloud["hours_per_month"]),
        decline=_rate(cloud["price_decline_per_year"]),
        mix=_mix(cloud["mix"]),
        horizon=fields["horizon_months"].at_most(MOST_MONTHS, 1),
    )


def _currency(cell: Cell) -> str:
    if cell.text() not in MINOR_UNITS:
        raise cell.wrong(f"{cell.shown} is not a currency of ISO 4217.")
    return cell.text()


def _hardware(fields: Fields) -> Hardware:
    return Hardware(
        servers=fields["servers"].at_most(1_000_000, 1),
        gpus_per_server=fields["gpus_per_server"].at_most(1_000, 1),
        price_per_server=_money(fields["price_per_server"]),
        network=_money(fields["network_fraction"]),
        install=_money(fields["install"]),
        salvage=_part_of_one(fields["salvage_fraction"]),
    )


def _running(fields: Fields) -> Running:
    included = fields["colocation_includes_power"].boolean()
    return Running(
        kw_per_server=_money(fields["kw_per_server"]),
        colocation_per_kw_month=_money(fields["colocation_per_kw_month"]),
        colocation_includes_power=included,
        pue=_pue(fields["pue"]) if _is_asked(fields, "pue", included) else Fraction(1),
        power_per_kwh=_money(fields["power_per_kwh"]) if _is_asked(fields, "power_per_kwh", included) else Fraction(0),
        support=_money(fields["support_fraction_per_year"]),
        staff_per_month=_money(fields["staff_per_month"]),
        other_per_month=_money(fields["other_per_month"]),
    )


def _is_asked(fields: Fields, key: str, included: bool) -> bool:
    """What power costs may be left out where colocation includes it."""
    return key in fields or not included


def _money(cell: Cell) -> Fraction:
    """An exact amount from 0 upwards."""
    found = amount(cell)
    if found > MOST_MONEY:
        raise cell.wrong(f"{cell.shown} is larger than {MOST_MONEY}, the largest amount there is here.")
    return found


def _part_of_one(cell: Cell) -> Fraction:
    found = amount(cell)
    if found > 1:
        raise cell.wrong(f'must be from 0 to 1, not {cell.shown}; write 80 % as "0.80".')
    return found


def _rate(cell: Cell) -> Fraction:
    """A part of one a year. It is raised to the power of months, so its digits are bounded."""
    found = _part_of_one(cell)
    if (found * 10**RATE_DIGITS).denominator != 1:
        raise cell.wrong(f"has more than {RATE_DIGITS} decimals.")
    return found


def _pue(cell: Cell) -> Fraction:
    found = _money(cell)
    if found < 1:
        raise cell.wrong(f"must be at least 1, not {cell.shown}: the building takes what the servers take, and more.")
    return found


def _hours(cell: Cell) -> Fraction:
    found = amount(cell)
    if not 0 < found <= LONGEST_MONTH:
        raise cell.wrong(f"must be above 0 and at most {LONGEST_MONTH}, not {cell.shown}; a mean month has 730 hours.")
    return found


def _mix(cell: Cell) -> tuple[Part, ...]:
    rows = [(c, c.fields(PART)) for c in cell.cells()]
    unique([(f["name"].text(), f["name"]) for _, f in rows], "the part")
    parts = tuple(
        Part(f["name"].text(), _part_of_one(f["share"]), _money(f["per_gpu_hour"]), f["pay"].choice(Pay))
        for _, f in rows
    )
    total = sum((part.share for part in parts), Fraction(0))
    if total != 1:
        raise cell.wrong(f"the shares sum to {float(total):.10g}, not to 1.")
    return parts
