"""Jobs, their attempts and places, and the effects that were decided."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text, text

from gpufleet.store.tables.columns import Instant, counting_id, metadata

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
    Column("busy", Float),
    Column("idle_since", Instant),
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
    counting_id(),
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

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("job", String(64), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

memory_peak = Table(
    "memory_peak",
    metadata,
    Column("job", String(64), ForeignKey("job.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("team", String(64), nullable=False),
    Column("workload", String(200)),  # null: the job did not say what it runs
    Column("batch", Integer, nullable=False, default=1),
    Column("sequence", Integer, nullable=False, default=1),
    Column("device_mib", BigInteger),  # as the cluster saw it
    Column("allocator_mib", BigInteger),  # as the job's framework said
    Column("killed", Boolean, nullable=False, default=False),
    Column("settled", Boolean, nullable=False, default=False),  # it ran long enough, or to its end
    Column("at", Instant, nullable=False),
    Index("ix_memory_peak_workload", "workload"),
)

operation = Table(
    "operation",
    metadata,
    counting_id(),
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
