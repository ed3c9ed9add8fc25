"""The tables. Constraints carry the invariants where a database can; history is appended, not edited."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant on every database; SQLite keeps no zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


def _id() -> Column[Any]:
    # SQLite counts up only for INTEGER; PostgreSQL gets the wide type
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


fleet = Table(
    "fleet",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("revision", Integer, nullable=False, default=0),
    Column("wanted", Integer, nullable=False, default=0),
    Column("done", Integer, nullable=False, default=0),
)

team = Table(
    "team",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("queue", String(64), nullable=False),
    Column("namespace", String(64), nullable=False, default=""),
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

job = Table(
    "job",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(128), nullable=False, default=""),
    Column("team", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("queue", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("submitted_by", String(128), nullable=False, default=""),
    Column("submitted_at", Instant, nullable=False),
    Column("state", String(16), nullable=False),
    Column("intent", String(16), nullable=False, default="run"),
    Column("reason", Text, nullable=False, default=""),
    Column("failures", Integer, nullable=False, default=0),
    Column("not_before", Instant),
    Column("not_on", JSON, nullable=False, default=list),
    Column("waiting_since", Instant),
    Column("ended_at", Instant),
    Column("save_request", Integer, nullable=False, default=0),
    Column("save_asked_at", Instant),
    Column("progress", JSON),
    Index("ix_job_state", "state"),
    Index("ix_job_team", "team"),
)

claim = Table(
    "claim",
    metadata,
    Column("key", String(512), primary_key=True),
    Column("job", String(64), ForeignKey("job.id"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("dag_id", String(250), nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("task_id", String(250), nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("claimed_at", Instant, nullable=False),
    Column("live", Boolean, nullable=False, default=True),
    Index("ix_claim_job", "job"),
)

attempt = Table(
    "attempt",
    metadata,
    Column("job", String(64), ForeignKey("job.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("cluster", String(64), nullable=False),
    Column("decided_at", Instant, nullable=False),
    Column("running_at", Instant),
    Column("stopping_at", Instant),
    Column("ended_at", Instant),
    Column("end_reason", Text, nullable=False, default=""),
    Column("interruption", String(128)),
    Column("missing_since", Instant),
    Index(
        "one_live_attempt",
        "job",
        unique=True,
        sqlite_where=text("state != 'ended'"),
        postgresql_where=text("state != 'ended'"),
    ),
)

assignment = Table(
    "assignment",
    metadata,
    _id(),
    Column("job", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pod_set", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("node", String(128), nullable=False),
    Column("gpu", Integer, nullable=False),
    Column("kind", String(8), nullable=False),  # whole | slice | share
    Column("profile", String(32)),
    Column("start", Integer, nullable=False, default=-1),
    Column("milli", Integer),
    Column("memory_mib", Integer),
    Column("cpu", Float),
    Column("host_memory_mib", Integer),
    Column("quota_mark", String(16), nullable=False, default="guaranteed"),
    Column("allocated_at", Instant),
    Column("released_at", Instant),
    Column("live", Boolean, nullable=False, default=True),
    Index("ix_assignment_job", "job", "attempt"),
    Index(
        "one_live_whole_gpu",
        "node",
        "gpu",
        unique=True,
        sqlite_where=text("live AND kind = 'whole'"),
        postgresql_where=text("live AND kind = 'whole'"),
    ),
    Index(
        "one_live_slice",
        "node",
        "gpu",
        "start",
        unique=True,
        sqlite_where=text("live AND kind = 'slice'"),
        postgresql_where=text("live AND kind = 'slice'"),
    ),
)

verdict = Table(
    "verdict",
    metadata,
    Column("job", String(64), ForeignKey("job.id"), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("queue_position", Integer, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Column("unblock", Text, nullable=False, default=""),
    Column("at", Instant, nullable=False),
)

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

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("job", String(64), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

operation = Table(
    "operation",
    metadata,
    _id(),
    Column("kind", String(16), nullable=False),
    Column("target", String(200), nullable=False),
    Column("name", String(200), nullable=False, unique=True),
    Column("args", JSON, nullable=False),
    Column("after", JSON, nullable=False, default=list),
    Column("state", String(16), nullable=False, default="todo"),  # todo | leased | done | failed | superseded
    Column("tries", Integer, nullable=False, default=0),
    Column("not_before", Instant),
    Column("lease_token", String(64)),
    Column("lease_until", Instant),
    Column("created_at", Instant, nullable=False),
    Column("done_at", Instant),
    Column("error", Text, nullable=False, default=""),
    Index("ix_operation_state", "state"),
    Index("ix_operation_target", "target"),
)

lease = Table(
    "lease",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(128)),
    Column("until", Instant),
)

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

audit = Table(
    "audit",
    metadata,
    _id(),
    Column("at", Instant, nullable=False),
    Column("who", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(200), nullable=False),
    Column("detail", Text, nullable=False, default=""),
)
