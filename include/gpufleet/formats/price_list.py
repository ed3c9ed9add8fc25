"""A dated price list: CSV with one machine, capacity type and region a line, each with its source and when it was read.

Columns: `region`, `instance_type`, `capacity`, `price` (per instance-hour, may be blank), `source`, `fetched_at` (ISO 8601 with
a zone); `currency` (USD), `gpus`, `zone` and `valid_for` (7d) may be left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Final

from gpufleet.errors import Invalid
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.prices import Quote
from gpufleet.units import duration

NEEDED: Final = ("region", "instance_type", "capacity", "price", "source", "fetched_at")
OTHER: Final = ("currency", "gpus", "zone", "valid_for")
VALID: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """One line. `zone` empty = every zone of the region."""

    region: str
    zone: str
    instance_type: str
    capacity: CapacityType
    price: Fraction | None
    currency: str
    gpus: int | None
    source: str
    fetched_at: datetime
    valid_for: timedelta

    def is_of(self, offering: Offering) -> bool:
        machine = (self.region, self.instance_type, self.capacity)
        same = machine == (offering.region, offering.instance_type, offering.capacity)
        return same and self.zone in ("", offering.zone)


def load_price_list(path: Path) -> tuple[ListedPrice, ...]:
    """Every line; raises Invalid naming file, line and column."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            _check_columns(path, rows.fieldnames or [])
            return tuple(_price(path, number, row) for number, row in enumerate(rows, start=2))
    except FileNotFoundError:
        raise Invalid(f"{path} is missing; it is named by `prices` in fleet.yaml.") from None
    except (UnicodeDecodeError, csv.Error) as e:
        raise Invalid(f"{path} is not CSV in UTF-8: {e}.") from None


def quotes_of(listed: tuple[ListedPrice, ...], offerings: tuple[Offering, ...]) -> tuple[Quote, ...]:
    """What the list says of each offering; a line of its own zone speaks before one of the region."""
    found = []
    for offering in offerings:
        lines = sorted((one for one in listed if one.is_of(offering)), key=lambda one: not one.zone)
        if lines:
            one = lines[0]
            found.append(
                Quote(offering.name, one.price, one.source, one.fetched_at, one.valid_for, one.currency, one.gpus)
            )
    return tuple(found)


def _check_columns(path: Path, named: object) -> None:
    columns = list(named) if isinstance(named, list) else []
    for column in columns:
        if column not in (*NEEDED, *OTHER):
            raise Invalid(f"{path}, line 1: {column} is not a known column; use {', '.join((*NEEDED, *OTHER))}.")
    missing = [column for column in NEEDED if column not in columns]
    if missing:
        raise Invalid(f"{path}, line 1: column {missing[0]} is missing.")


def _price(path: Path, line: int, row: dict[str, str | None]) -> ListedPrice:
    def text(column: str, default: str = "") -> str:
        return (row.get(column) or "").strip() or default

    column = ""
    try:
        column = "capacity"
        capacity = CapacityType(text(column))
        column = "price"
        price = Fraction(text(column)) if text(column) else None
        column = "gpus"
        gpus = int(text(column)) if text(column) else None
        column = "fetched_at"
        fetched_at = datetime.fromisoformat(text(column).replace("Z", "+00:00"))
        if fetched_at.tzinfo is None:
            raise ValueError("it has no zone")
        column = "valid_for"
        valid_for = duration(text(column)) if text(column) else VALID
    except (ValueError, ZeroDivisionError, Invalid) as e:
        raise Invalid(f"{path}, line {line}: {column}: '{text(column)}' cannot be read: {e}.") from None
    return ListedPrice(
        region=text("region"),
        zone=text("zone"),
        instance_type=text("instance_type"),
        capacity=capacity,
        price=price,
        currency=text("currency", "USD"),
        gpus=gpus,
        source=text("source"),
        fetched_at=fetched_at.astimezone(UTC),
        valid_for=valid_for,
    )
