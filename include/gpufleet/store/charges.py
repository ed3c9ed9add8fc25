"""Charges of settled days, and the months that are closed over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from datetime import date
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.store import schema as t

AT_ONCE: Final = 2_000
_FIELDS: Final = tuple(f.name for f in fields(Charge))
_ROW: Final = tuple(t.charge.c[name] for name in _FIELDS)


def put_charges(connection: Connection, day: date, charges: Iterable[Charge]) -> int:
    """Replace a day's charges; returns how many there are."""
    connection.execute(delete(t.charge).where(t.charge.c.day == day))
    count = 0
    left = iter(charges)
    while some := tuple(islice(left, AT_ONCE)):
        connection.execute(insert(t.charge), [asdict(c) for c in some])
        count += len(some)
    return count


def charges(connection: Connection, first: date, last: date) -> Iterator[Charge]:
    """Of the days [first, last), by team, project, job, attempt, node, GPU, begin, kind and id; streamed."""
    c = t.charge.c
    order = (c.team, c.project, c.job, c.attempt, c.node, c.gpu, c.begin, c.kind, c.id)
    query = select(*_ROW).where(c.day >= first, c.day < last).order_by(*order)
    for row in connection.execute(query, execution_options={"yield_per": AT_ONCE}):
        yield _charge(row)


def corrections_of(connection: Connection, month: str) -> Iterator[Charge]:
    """What was booked in later months for this one."""
    for row in connection.execute(select(*_ROW).where(t.charge.c.corrects == month).order_by(t.charge.c.id)):
        yield _charge(row)


def _charge(row: Row[Any]) -> Charge:
    return Charge(**{**row._mapping, "kind": ChargeKind(row.kind)})


# ------------------------------------------------------------------ months


def month(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(t.month).where(t.month.c.month == name)).first()


def months(connection: Connection) -> tuple[Row[Any], ...]:
    """Every month that was ever closed, in order."""
    return tuple(connection.execute(select(t.month).order_by(t.month.c.month)))


def put_month(connection: Connection, name: str, **values: Any) -> None:
    if connection.execute(update(t.month).where(t.month.c.month == name).values(**values)).rowcount == 0:
        connection.execute(insert(t.month).values(month=name, **values))
