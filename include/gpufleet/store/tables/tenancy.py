"""Who there is, and who may do what only one may do."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, String, Table, Text

from gpufleet.store.tables.columns import Instant, counting_id, metadata

fleet = Table(
    "fleet",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("revision", Integer, nullable=False, default=0),
    Column("wanted", Integer, nullable=False, default=0),
    Column("done", Integer, nullable=False, default=0),
)

lease = Table(
    "lease",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(128)),
    Column("until", Instant),
)

audit = Table(
    "audit",
    metadata,
    counting_id(),
    Column("at", Instant, nullable=False),
    Column("who", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(200), nullable=False),
    Column("detail", Text, nullable=False, default=""),
)

team = Table(
    "team",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("queue", String(64), nullable=False),
    Column("namespace", String(64), nullable=False, default=""),
    Column("priority_ceiling", Integer, nullable=False, default=1000),
)

member = Table(
    "member",
    metadata,
    Column("team", String(64), ForeignKey("team.name", ondelete="CASCADE"), primary_key=True),
    Column("login", String(128), primary_key=True),
    Column("role", String(16), nullable=False),
)

project = Table(
    "project",
    metadata,
    Column("team", String(64), ForeignKey("team.name", ondelete="CASCADE"), primary_key=True),
    Column("name", String(64), primary_key=True),
)

team_dag = Table(
    "team_dag",
    metadata,
    Column("dag_id", String(250), primary_key=True),
    Column("team", String(64), ForeignKey("team.name", ondelete="CASCADE"), nullable=False),
)

team_token = Table(
    "team_token",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("team", String(64), nullable=False),
    Column("made_at", Instant, nullable=False),
)

queue = Table(
    "queue",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("parent", String(64)),
    Column("weight", Float, nullable=False, default=1.0),
    Column("min_runtime_s", Float, nullable=False, default=0.0),
)

quota = Table(
    "quota",
    metadata,
    Column("queue", String(64), ForeignKey("queue.name", ondelete="CASCADE"), primary_key=True),
    Column("model", String(64), primary_key=True),
    Column("deserved_grains", BigInteger),
    Column("limit_grains", BigInteger),
)
