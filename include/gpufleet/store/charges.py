"""Charges in the database, streamed out in one order: team, project, job, attempt, node, gpu, begin, kind, id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import date
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, collate, delete, func, insert, select

from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks

FIELDS: Final = tuple(f.name for f in fields(Charge))


def put_charges(connection: Connection, day: date, charges: Iterable[Charge]) -> None:
    """Replace the charges of a day."""
    connection.execute(delete(t.charge).where(t.charge.c.day == day.isoformat()))
    for some in chunks(charges):
        connection.execute(insert(t.charge), [row_of(charge) for charge in some])


def charges(connection: Connection, first: date, last: date) -> Iterator[Charge]:
    """Those of [first, last)."""
    return read_charges(connection, t.charge, first, last)


def charges_by_id(connection: Connection, table: Table, day: date) -> Iterator[Charge]:
    """Those of a table of charges on one day by id, code point by code point, streamed."""
    c = table.c
    bytewise = collate(c.id, "C" if connection.dialect.name == "postgresql" else "BINARY")
    asked = columns_of(table).where(c.day == day.isoformat()).order_by(bytewise)
    for row in connection.execute(asked, execution_options={"yield_per": 2000}):
        yield charge_of(row)


def read_charges(connection: Connection, table: Table, first: date, last: date) -> Iterator[Charge]:
    """Those of a table of charges, of [first, last), streamed."""
    c = table.c
    order = (c.team, c.project, c.job, func.coalesce(c.attempt, 0), c.node, func.coalesce(c.gpu, -1), c.begin, c.kind)
    asked = columns_of(table).where(c.day >= first.isoformat(), c.day < last.isoformat()).order_by(*order, c.id)
    for row in connection.execute(asked, execution_options={"yield_per": 2000}):
        yield charge_of(row)


def has_estimated(connection: Connection, first: date, last: date) -> bool:
    """Whether any charge of [first, last) is of use that was not seen to end."""
    c = t.charge.c
    asked = select(c.id).where(c.day >= first.isoformat(), c.day < last.isoformat(), c.estimated)
    return connection.execute(asked.limit(1)).first() is not None


def row_of(charge: Charge) -> dict[str, Any]:
    """The values of its columns."""
    # every value is plain: `asdict`, which copies deeply, would take a third of a night
    told: dict[str, Any] = {name: getattr(charge, name) for name in FIELDS}
    told["day"], told["kind"] = charge.day.isoformat(), charge.kind.value
    return told


def columns_of(table: Table) -> Select[Any]:
    """The columns of charges alone, in the order of their fields."""
    return select(*(table.c[name] for name in FIELDS))


def charge_of(row: Row[Any]) -> Charge:
    """The charge of a row of `columns_of`."""
    id, day, kind, *rest = tuple(row)
    return Charge(id, date.fromisoformat(day), ChargeKind(kind), *rest)
