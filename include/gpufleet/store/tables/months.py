"""Months: closes with their hashes, what was booked beside the nights, reconciliations, alerts of budgets."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Integer, String, Table, Text

from gpufleet.store.tables.charges import charge_columns
from gpufleet.store.tables.columns import Instant, metadata

booked_charge = Table(
    "booked_charge",
    metadata,
    *charge_columns(),
    Column("source", String(128), nullable=False),  # why it was booked: credit, correction/2026-03, invoice/aws/NAME
)

month_close = Table(
    "month_close",
    metadata,
    Column("month", String(7), primary_key=True),
    Column("version", Integer, primary_key=True),  # 1, and one more for each close after a re-opening
    Column("closed_at", Instant, nullable=False),
    Column("closed_by", String(128), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("total_nano", BigInteger, nullable=False),
    Column("reopened_at", Instant),
    Column("reopened_by", String(128)),
    Column("why", Text, nullable=False, default=""),
    Column("rates", JSON, nullable=False),  # those it was closed with: what comes late is priced by them
)

reconciliation = Table(
    "reconciliation",
    metadata,
    Column("month", String(7), primary_key=True),
    Column("provider", String(16), primary_key=True),
    Column("made_at", Instant, nullable=False),
    Column("report", JSON, nullable=False),
)

budget_alert = Table(
    "budget_alert",
    metadata,
    Column("month", String(7), primary_key=True),
    Column("team", String(64), primary_key=True),
    Column("threshold", Integer, primary_key=True),  # per cent of the budget
    Column("at", Instant, nullable=False),
    Column("actual", BigInteger, nullable=False),
    Column("budget", BigInteger, nullable=False),
)
