"""Charges: what a night metered, and what was booked beside it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Table, Text

from gpufleet.store.tables.columns import Instant, metadata


def charge_columns() -> list[Column[Any]]:
    """The fields of a charge under their own names."""
    return [
        Column("day", String(10), primary_key=True),
        Column("id", String(64), primary_key=True),
        Column("kind", String(16), nullable=False),
        Column("begin", Instant, nullable=False),
        Column("end", Instant, nullable=False),
        Column("team", String(64), nullable=False),
        Column("project", String(64), nullable=False),
        Column("cost_nano", BigInteger, nullable=False),
        Column("billed_nano", BigInteger, nullable=False),
        Column("hours_nano", BigInteger, nullable=False),
        Column("list_price_nano", BigInteger),
        Column("price_nano", BigInteger),
        Column("job", String(64), nullable=False),
        Column("attempt", Integer),
        Column("node", String(128), nullable=False),
        Column("gpu", Integer),
        Column("profile", String(32), nullable=False),
        Column("start", Integer),
        Column("fraction", String(64), nullable=False),
        Column("model", String(64), nullable=False),
        Column("capacity", String(16), nullable=False),
        Column("provider", String(64), nullable=False),
        Column("region", String(64), nullable=False),
        Column("quota", String(16), nullable=False),
        Column("commitment", String(64), nullable=False),
        Column("estimated", Boolean, nullable=False),
        Column("corrects", String(7), nullable=False),
        Column("note", Text, nullable=False),
    ]


charge = Table("charge", metadata, *charge_columns())
