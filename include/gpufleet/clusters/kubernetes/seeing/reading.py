"""Reading JSON that may be anything: what is not as expected reads as absent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

Raw = Mapping[str, Any]

NOTHING: Final[Raw] = {}
_QUANTITY: Final = re.compile(r"([+-]?\d{1,20}(?:\.\d{0,9})?)(?:[eE]([+-]?\d{1,2})|([mkMGTPE]|[KMGTPE]i|))")
_UNITS: Final[Mapping[str, Fraction]] = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    **{unit: Fraction(1000 ** (n + 2)) for n, unit in enumerate("MGTPE")},
    **{f"{unit}i": Fraction(1024 ** (n + 1)) for n, unit in enumerate("KMGTPE")},
}
MIB: Final = 1 << 20


def at(raw: Any, *path: str) -> Any:
    """What lies there, or None."""
    for key in path:
        if not isinstance(raw, Mapping):
            return None
        raw = raw.get(key)
    return raw


def mapping(raw: Any, *path: str) -> Raw:
    found = at(raw, *path)
    return found if isinstance(found, Mapping) else NOTHING


def listed(raw: Any, *path: str) -> Iterator[Raw]:
    """The objects of a list; whatever else stands in it is left out."""
    found = at(raw, *path)
    return (entry for entry in (found if isinstance(found, list) else ()) if isinstance(entry, Mapping))


def words(raw: Any, *path: str) -> list[str]:
    """The texts of a list."""
    found = at(raw, *path)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def text(raw: Any, *path: str) -> str:
    found = at(raw, *path)
    return found if isinstance(found, str) else ""


def whole(raw: Any, *path: str) -> int | None:
    """An integer, also when it is written as text."""
    found = at(raw, *path)
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 10:
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def instant(raw: Any, *path: str) -> datetime | None:
    """Aware, UTC; Kubernetes writes whole seconds."""
    found = text(raw, *path)
    if not found:
        return None
    try:
        read = datetime.fromisoformat(found)
        return read.astimezone(UTC) if read.tzinfo else None
    except (ValueError, OverflowError):
        return None


def quantity(value: Any) -> Fraction:
    """A resource quantity, e.g. `500m`, `1Gi`, `8`; what is none counts as nothing."""
    match = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if match is None:
        return Fraction(0)
    number, exponent, unit = match.groups()
    factor = Fraction(10) ** int(exponent) if exponent else _UNITS[unit or ""]
    return max(Fraction(0), Fraction(number) * factor)


def count(resources: Raw, name: str) -> int:
    """So many of an extended resource, rounded down."""
    return int(quantity(resources.get(name, 0)))
