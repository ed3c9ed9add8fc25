"""Use and money."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, String, Table

from gpufleet.store.tables.columns import Instant, metadata

usage_event = Table(
    "usage_event",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("event", String(16), nullable=False),
    Column("job", String(64)),
    Column("attempt", Integer),
    Column("node", String(128), nullable=False),
    Column("gpu", Integer),
    Column("team", String(64)),
    Column("project", String(64)),
    Column("facts", JSON, nullable=False, default=dict),
    Column("recorded_at", Instant, nullable=False),
    Index("ix_usage_event_at", "at"),
)

rate = Table(
    "rate",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("applied_at", Instant, nullable=False),
    Column("rates", JSON, nullable=False),
)

day_status = Table(
    "day_status",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("total_nano", BigInteger, nullable=False),
    Column("published_at", Instant, nullable=False),
    Column("answer", JSON, nullable=False),
)

statement_line = Table(
    "statement_line",
    metadata,
    Column("day", String(10), ForeignKey("day_status.day", ondelete="CASCADE"), primary_key=True),
    Column("team", String(64), primary_key=True),
    Column("project", String(64), primary_key=True),
    Column("gpu_hours", String(40), nullable=False),
    Column("total_nano", BigInteger, nullable=False),
    Column("facts", JSON, nullable=False),
)
