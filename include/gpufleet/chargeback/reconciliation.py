"""Our charges held against a cloud's invoice, machine by machine and day by day.

What differs is booked: for each machine and day an adjustment from ours to theirs, for each kind of line that no
machine caused (tax, support, credits, rounding) one of its own. So ours + adjustments is the invoice's total, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import Final

from gpufleet.chargeback.rates import PLATFORM
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.invoice import InvoiceKind, InvoiceLine

NANO: Final = 1_000_000_000
MACHINE_KINDS: Final = frozenset({ChargeKind.USE, ChargeKind.COMMITTED_USE, ChargeKind.IDLE})
"""Charges that a machine caused: its GPUs, held or idle."""


class Verdict(StrEnum):
    """How a machine's day compares."""

    MATCHED = "matched"
    """To the nano-unit, or within the tolerance."""
    PRICE = "price"
    """Both know it, and the amounts differ by more than the tolerance."""
    OURS = "only-ours"
    THEIRS = "only-theirs"


@dataclass(frozen=True, slots=True)
class Compared:
    """One machine's day. Nano-units; None where one side does not know it."""

    machine: str
    day: date
    ours: int | None
    theirs: int | None
    verdict: Verdict

    @property
    def difference(self) -> int:
        return (self.theirs or 0) - (self.ours or 0)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What came out: each machine's day, what the invoice says beside machines, and what is booked so both agree."""

    provider: str
    currency: str
    compared: tuple[Compared, ...]
    beside: tuple[tuple[InvoiceKind, int], ...]
    """Nano-units by kind, of lines that name no machine or are not for its use."""
    adjustments: tuple[Charge, ...]
    ours: int
    theirs: int
    is_final: bool
    """Every line has the number of an issued invoice."""

    def of(self, verdict: Verdict) -> tuple[Compared, ...]:
        """The machine days with this verdict."""
        return tuple(c for c in self.compared if c.verdict is verdict)


@dataclass(frozen=True, slots=True)
class Books:
    """Whose books are compared: the provider, our currency, how our nodes are called there, and the finance days."""

    provider: str
    currency: str
    machines: Mapping[str, str]
    """Node -> the provider's id of its machine; a node that is not there is called what the provider calls it."""
    days: Mapping[date, tuple[datetime, datetime]]
    """The days that are reconciled, each with its instants [begin, end)."""
    day_of: Callable[[datetime], date]
    tolerance: Fraction = Fraction(1, 100)


def reconcile(charges: Iterable[Charge], lines: Iterable[InvoiceLine], books: Books) -> Reconciliation:
    """Compare; a day that `books.days` lacks is not looked at on either side.

    Charges of other providers, shares of idle cost and adjustments are passed over. Raises Invalid for a line in
    another currency than our books: amounts of two currencies are never added.
    """
    ours = _ours(charges, books)
    theirs, beside, is_final = _theirs(lines, books)
    keys = sorted({*ours, *theirs})
    compared = tuple(_compare(key, ours.get(key), theirs.get(key), books.tolerance) for key in keys)
    booked = tuple(_adjustments(compared, beside, books))
    kinds: dict[InvoiceKind, int] = {}
    for (kind, _), amount in beside.items():
        kinds[kind] = kinds.get(kind, 0) + amount
    return Reconciliation(
        books.provider,
        books.currency,
        compared,
        tuple(sorted(kinds.items())),
        booked,
        ours=sum(ours.values()),
        theirs=sum(theirs.values()) + sum(beside.values()),
        is_final=is_final,
    )


Machine = tuple[str, date]


def machine_id(resource: str) -> str:
    """The machine in a provider's resource name: `i-0abc` of an ARN, the last part of a path, in lower case."""
    return resource.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()


def _ours(charges: Iterable[Charge], books: Books) -> dict[Machine, int]:
    found: dict[Machine, int] = {}
    for charge in charges:
        if charge.provider != books.provider or charge.kind not in MACHINE_KINDS or charge.corrects:
            continue
        if charge.day in books.days:
            key = (machine_id(books.machines.get(charge.node, charge.node)), charge.day)
            found[key] = found.get(key, 0) + charge.cost_nano
    return found


Beside = dict[tuple[InvoiceKind, date], int]


def _theirs(lines: Iterable[InvoiceLine], books: Books) -> tuple[dict[Machine, int], Beside, bool]:
    machines: dict[Machine, int] = {}
    beside: Beside = {}
    is_final = True
    for line in lines:
        if line.currency != books.currency:
            raise Invalid(
                f"the invoice has a line in {line.currency} and our books are in {books.currency}: amounts of two "
                "currencies are never added, so export the invoice in the currency of the rates."
            )
        day = books.day_of(line.start)
        if day not in books.days:
            continue
        is_final = is_final and bool(line.invoice)
        amount = _nano(line.amount)
        if line.kind is InvoiceKind.USAGE and line.resource:
            key = (machine_id(line.resource), day)
            machines[key] = machines.get(key, 0) + amount
        else:
            beside[line.kind, day] = beside.get((line.kind, day), 0) + amount
    return machines, beside, is_final


def _nano(amount: Decimal) -> int:
    """Halves away from 0; providers write up to 15 decimals, we keep nine."""
    exact = Fraction(amount) * NANO
    whole = (2 * abs(exact.numerator) + exact.denominator) // (2 * exact.denominator)
    return whole if exact >= 0 else -whole


def _compare(key: Machine, ours: int | None, theirs: int | None, tolerance: Fraction) -> Compared:
    if ours is None or theirs is None:
        verdict = Verdict.THEIRS if ours is None else Verdict.OURS
    else:
        verdict = Verdict.MATCHED if abs(theirs - ours) <= tolerance * NANO else Verdict.PRICE
    return Compared(*key, ours, theirs, verdict)


def _adjustments(compared: Iterable[Compared], beside: Beside, books: Books) -> Iterator[Charge]:
    for one in compared:
        if one.difference:
            yield _adjustment(books, one.day, one.difference, f"{books.provider} invoice: {one.verdict}", one.machine)
    for (kind, day), amount in sorted(beside.items()):
        if amount:
            yield _adjustment(books, day, amount, f"{books.provider} invoice: {kind}")


def _adjustment(books: Books, day: date, amount: int, note: str, node: str = "") -> Charge:
    begin, end = books.days[day]
    return Charge(
        id=sha256(f"{note}/{node}/{day}".encode()).hexdigest()[:32],
        day=day,
        kind=ChargeKind.ADJUSTMENT,
        begin=begin,
        end=end,
        team=PLATFORM,
        project="",
        cost_nano=amount,
        billed_nano=amount,
        node=node,
        provider=books.provider,
        note=note,
    )
