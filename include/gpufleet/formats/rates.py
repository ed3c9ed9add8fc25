"""The rates file to frozen facts (rule 29); every error names file, line, place and key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from gpufleet.chargeback.currencies import MINOR_UNITS
from gpufleet.chargeback.days import HOUR, micros
from gpufleet.chargeback.rates import (
    PLATFORM,
    Commitment,
    IdlePolicy,
    Match,
    MigShare,
    Price,
    Rates,
    SharedCost,
    Split,
)
from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, Fields, read, unique
from gpufleet.formats.events import DECIMAL, instant

T = TypeVar("T")

WHOLE: Final = re.compile(r"0|[1-9]\d{0,39}", re.ASCII)
"""Without the other ways YAML has to write a whole number, such as 010 for eight."""

DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
YEARS: Final = range(1970, 9000)
NANO_DIGITS: Final = 9
EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
ALL_KEYS: Final = (
    "version", "currency", "timezone", "mig_share", "idle", "quota", "prices", "over_quota_factor", "commitments",
    "shared_costs",
)  # fmt: skip


def load_rates(path: Path) -> Rates:
    """The rates of a file; raises Invalid that names file, line, place and key."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as why:
        raise Invalid(f"{path} cannot be read: {why.strerror}.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not text in UTF-8.") from None
    return read_rates(text, str(path))


def rates_of(stored: Mapping[str, Any], name: str) -> Rates:
    """Rates as the ledger keeps them: the same shape as the file."""
    return read_rates(json.dumps(stored, ensure_ascii=False), name)


def read_rates(text: str, file: str) -> Rates:
    fields = read(text, file).fields(ALL_KEYS)
    if fields["version"].text() != "1":
        raise fields["version"].wrong(f"version {fields['version'].raw} is not known; it is 1.")
    rates = Rates(
        currency=_currency(fields["currency"]),
        prices=_prices(fields),
        timezone=fields.get("timezone", _zone, ZoneInfo("UTC")),
        mig_share=fields.get("mig_share", lambda c: c.choice(MigShare), MigShare.DOMINANT),
        idle=fields.get("idle", lambda c: c.choice(IdlePolicy), IdlePolicy.PLATFORM),
        quota=fields.get("quota", _weights, None),
        over_quota_factor=fields.get("over_quota_factor", amount, Fraction(1)),
        commitments=_commitments(fields),
        shared_costs=tuple(_shared_cost(c) for c in fields.cells("shared_costs")),
    )
    if rates.idle is IdlePolicy.QUOTA_HOLDERS and rates.quota is None:
        raise fields["idle"].wrong("quota-holders needs the key 'quota'.")
    return rates


def day(text: str) -> date:
    """`2026-03-10`; raises Invalid for anything else."""
    try:
        if DAY.fullmatch(text) and (found := date.fromisoformat(text)).year in YEARS:
            return found
    except ValueError:
        pass
    raise Invalid(f"'{text}' is not a day; write it as 2026-03-10.")


def amount(cell: Cell) -> Fraction:
    """An exact amount, text or a whole number, never below 0: a YAML float may have lost digits before we see it."""
    text = str(cell.raw)
    plain = {"str": DECIMAL, "int": WHOLE}.get(cell.tag)
    if plain and plain.fullmatch(text):
        return Fraction(text)
    if cell.tag in ("str", "int", "float") and text.startswith("-"):
        raise cell.wrong(f"must be at least 0, not {text}.")
    shown = f"a {cell.tag}" if cell.tag in ("map", "list") else f"'{text}'"
    raise cell.wrong(f'{shown} is not an amount; write it in quotes, as "2.50".')


# ---------------------------------------------------------------- values


def _currency(cell: Cell) -> str:
    if cell.text() not in MINOR_UNITS:
        raise cell.wrong(f"'{cell.raw}' is not a currency of ISO 4217.")
    return cell.text()


def _zone(cell: Cell) -> ZoneInfo:
    try:
        return ZoneInfo(cell.text())
    except (OSError, ValueError, KeyError):  # what zoneinfo raises for unknown names, folders and odd characters
        raise cell.wrong(f"'{cell.raw}' is not a time zone; write it as Europe/Berlin.") from None


def _instant(cell: Cell) -> datetime:
    return _named(cell, instant)


def _day(cell: Cell) -> date:
    return _named(cell, day)


def _named(cell: Cell, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the text; its error gets the place."""
    text = cell.text()
    try:
        return parse(text)
    except Invalid as why:
        raise cell.wrong(str(why)) from None


def _weights(cell: Cell) -> Mapping[str, Fraction]:
    return {key.text(): amount(value) for key, value in cell.pairs()}


def _match(cell: Cell) -> Match:
    fields = cell.fields(("model", "capacity", "provider", "region", "node"))
    return {key.text(): fields[key.text()].text() for key, value in cell.pairs() if not value.is_empty}


def _count(cell: Cell) -> int:
    found = amount(cell)
    if found.denominator != 1 or found < 1:
        raise cell.wrong(f"must be a whole number of GPUs, at least 1, not '{cell.raw}'.")
    return int(found)


def _in_order(cell: Cell, begin: Any, end: Any) -> None:
    if begin is not None and end is not None and begin >= end:
        raise cell.wrong("'from' must be before 'to'.")


# ---------------------------------------------------------------- prices, commitments, shared costs


def _prices(fields: Fields) -> tuple[Price, ...]:
    cells = fields["prices"].cells()
    prices = tuple(map(_price, cells))
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for i in sorted(range(len(prices)), key=lambda i: prices[i].begin or EARLIEST):
        alike.setdefault(frozenset(prices[i].match.items()), []).append(i)
    for entries in alike.values():
        for earlier, later in pairwise(entries):
            end = prices[earlier].end
            if end is None or (prices[later].begin or EARLIEST) < end:
                raise cells[later].wrong(f"overlaps {cells[earlier].path} in time, with the same match (rule 20).")
    return prices


def _price(cell: Cell) -> Price:
    fields = cell.fields(("match", "from", "to", "per_gpu_hour", "per_node_hour"))
    if ("per_gpu_hour" in fields) == ("per_node_hour" in fields):
        raise cell.wrong("needs either per_gpu_hour or per_node_hour.")
    price = Price(
        fields.get("match", _match, {}),
        per_gpu_hour=fields.get("per_gpu_hour", amount, None),
        per_node_hour=fields.get("per_node_hour", amount, None),
        begin=fields.get("from", _instant, None),
        end=fields.get("to", _instant, None),
    )
    _in_order(cell, price.begin, price.end)
    return price


def _commitments(fields: Fields) -> tuple[Commitment, ...]:
    cells = fields.cells("commitments")
    found = tuple(map(_commitment, cells))
    unique([(c.id, cell) for c, cell in zip(found, cells, strict=True)], "commitment")
    return found


def _commitment(cell: Cell) -> Commitment:
    fields = cell.fields(("id", "owner", "match", "gpus", "from", "to", "upfront", "per_gpu_hour"))
    commitment = Commitment(
        fields["id"].text(),
        fields.get("owner", Cell.text, PLATFORM),
        fields.get("match", _match, {}),
        _count(fields["gpus"]),
        _instant(fields["from"]),
        _instant(fields["to"]),
        upfront=fields.get("upfront", _upfront, Fraction(0)),
        per_gpu_hour=fields.get("per_gpu_hour", amount, Fraction(0)),
    )
    _in_order(cell, commitment.begin, commitment.end)
    if (micros(commitment.end) - micros(commitment.begin)) % HOUR:
        raise fields["to"].wrong("the term must be a whole number of hours.")
    return commitment


def _upfront(cell: Cell) -> Fraction:
    found = amount(cell)
    if 10**NANO_DIGITS % found.denominator:
        raise cell.wrong(f"may have at most nine decimals, not '{cell.raw}'.")
    return found


def _shared_cost(cell: Cell) -> SharedCost:
    fields = cell.fields(("name", "amount", "from", "to", "split"))
    split = fields["split"]
    cost = SharedCost(
        fields["name"].text(),
        amount(fields["amount"]),
        _day(fields["from"]),
        _day(fields["to"]),
        _weights(split) if split.tag == "map" else split.choice(Split),
    )
    _in_order(cell, cost.begin, cost.end)
    return cost
