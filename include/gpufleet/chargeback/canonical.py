"""A month as one fixed text, and its hash: what proves later that nothing in it was changed.

One JSON object a charge, keys sorted, instants in UTC to the microsecond, whole numbers as they are; rows in the order
of their day and id. The same charges give the same hash wherever they are read from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import Final

from gpufleet.model.charge import Charge

NAMES: Final = tuple(f.name for f in fields(Charge))


@dataclass(frozen=True, slots=True)
class Seal:
    """What is written down at a close: sha256 over the rows, how many there are, and what they come to."""

    sha256: str
    rows: int
    total_nano: int


def seal(charges: Iterable[Charge]) -> Seal:
    """Of charges in the order of day and id; each is read once."""
    digest, rows, total = hashlib.sha256(), 0, 0
    for charge in charges:
        digest.update(row(charge).encode())
        digest.update(b"\n")
        rows += 1
        total += charge.cost_nano
    return Seal(digest.hexdigest(), rows, total)


def row(charge: Charge) -> str:
    """The charge as its one line of canonical text."""
    told = {name: _plain(getattr(charge, name)) for name in NAMES}
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else value
