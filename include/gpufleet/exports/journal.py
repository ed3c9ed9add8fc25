"""A month's statement as a journal that an accounting system can book: cost centre, account, debit, credit."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gpufleet.errors import Invalid
from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.statement import Statement, money

COLUMNS: Final = ("document_date", "cost_centre", "account", "debit", "credit", "currency", "text")
KINDS: Final = ("usage", "idle", "commitment", "shared", "credit", "adjustment")
PLATFORM: Final = "platform"
CLEARING: Final = "clearing"


@dataclass(frozen=True, slots=True)
class Booking:
    """Amounts in minor units; one of them is 0."""

    cost_centre: str
    account: str
    debit: int
    credit: int
    text: str


def bookings(
    found: Statement, accounts: Mapping[str, str], cost_centres: Mapping[str, str], default_cost_centre: str
) -> list[Booking]:
    """A line for each team and kind of cost, and one that clears all of them: debits are credits, and the total.

    Raises Invalid for a team without a cost centre where there is no default.
    """
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for row in found.rows:
        for kind in KINDS:
            sums[row.team, kind] += getattr(row, kind)
    sums[PLATFORM, "idle"] += found.idle_cost
    sums[PLATFORM, "commitment"] += found.unused_cost
    month = f"{found.begin:%Y-%m}"
    lines = [
        _booking(_centre(team, cost_centres, default_cost_centre), accounts[kind], units, f"{kind} of {team}, {month}")
        for (team, kind), units in sorted(sums.items())
        if units
    ]
    total = sum(line.debit - line.credit for line in lines)
    if lines:
        centre = default_cost_centre or _centre(PLATFORM, cost_centres, "-")
        lines.append(_booking(centre, accounts[CLEARING], -total, f"GPU fleet, {month}"))
    return lines


def _booking(centre: str, account: str, units: int, text: str) -> Booking:
    return Booking(centre, account, max(0, units), max(0, -units), text)


def _centre(team: str, cost_centres: Mapping[str, str], default: str) -> str:
    centre = cost_centres.get(team) or default
    if not centre:
        raise Invalid(
            f"team '{team}' has no cost centre: name it under cost_centres in finance.yaml, or set default_cost_centre."
        )
    return centre


def journal_csv(found: Statement, lines: list[Booking]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_cells(found, lines))
    return out.getvalue()


def _cells(found: Statement, lines: list[Booking]) -> Iterator[list[str]]:
    dated = (found.end - timedelta(days=1)).isoformat()
    for line in lines:
        amounts = [money(line.debit, found.decimals), money(line.credit, found.decimals)]
        yield [dated, tame(line.cost_centre), tame(line.account), *amounts, found.currency, tame(line.text)]
