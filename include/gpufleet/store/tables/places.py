"""What was last seen of clusters and clouds."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, String, Table

from gpufleet.store.tables.columns import Instant, metadata

cluster = Table(
    "cluster",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("levels", JSON, nullable=False),
    Column("observed_at", Instant, nullable=False),
    Column("cluster_time", Instant, nullable=False),
)

node = Table(
    "node",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("cluster", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("facts", JSON, nullable=False),
    Column("first_seen", Instant, nullable=False),
    Column("last_seen", Instant, nullable=False),
    Column("idle_since", Instant),
)

offering = Table(
    "offering",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("cloud", String(64), nullable=False),
    Column("facts", JSON, nullable=False),
    Column("price_nano", BigInteger, nullable=False),
    Column("fetched_at", Instant, nullable=False),
    Column("not_before", Instant),
)

instance = Table(
    "instance",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("cloud", String(64), nullable=False),
    Column("offering", String(128), nullable=False),
    Column("token", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("price_nano", BigInteger, nullable=False),
    Column("launched_at", Instant, nullable=False),
    Column("recorded_at", Instant, nullable=False),  # by our clock; launched_at is by the cloud's
    Column("ended_at", Instant),
    Index("ix_instance_token", "token"),
)

interruption = Table(
    "interruption",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("instance", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("noticed_at", Instant, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("heard_at", Instant, nullable=False),
    Column("resumed_at", Instant),
)
