"""the first tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gpufleet.store.schema import Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "assignment",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("pod_set", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("profile", sa.String(length=32), nullable=True),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("milli", sa.Integer(), nullable=True),
        sa.Column("memory_mib", sa.Integer(), nullable=True),
        sa.Column("cpu", sa.Float(), nullable=True),
        sa.Column("host_memory_mib", sa.Integer(), nullable=True),
        sa.Column("quota_mark", sa.String(length=16), nullable=False),
        sa.Column("allocated_at", Instant(timezone=True), nullable=True),
        sa.Column("released_at", Instant(timezone=True), nullable=True),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assignment")),
    )
    with op.batch_alter_table("assignment", schema=None) as batch_op:
        batch_op.create_index("ix_assignment_job", ["job", "attempt"], unique=False)
        batch_op.create_index(
            "one_live_slice",
            ["node", "gpu", "start"],
            unique=True,
            sqlite_where=sa.text("live AND kind = 'slice'"),
            postgresql_where=sa.text("live AND kind = 'slice'"),
        )
        batch_op.create_index(
            "one_live_whole_gpu",
            ["node", "gpu"],
            unique=True,
            sqlite_where=sa.text("live AND kind = 'whole'"),
            postgresql_where=sa.text("live AND kind = 'whole'"),
        )

    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "checkpoint",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt", "step", name=op.f("pk_checkpoint")),
    )
    op.create_table(
        "cluster",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("levels", sa.JSON(), nullable=False),
        sa.Column("observed_at", Instant(timezone=True), nullable=False),
        sa.Column("cluster_time", Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cluster")),
    )
    op.create_table(
        "day_status",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("total_nano", sa.BigInteger(), nullable=False),
        sa.Column("published_at", Instant(timezone=True), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_day_status")),
    )
    op.create_table(
        "fleet",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleet")),
    )
    op.create_table(
        "instance",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("cloud", sa.String(length=64), nullable=False),
        sa.Column("offering", sa.String(length=128), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("price_nano", sa.BigInteger(), nullable=False),
        sa.Column("launched_at", Instant(timezone=True), nullable=False),
        sa.Column("recorded_at", Instant(timezone=True), nullable=False),
        sa.Column("ended_at", Instant(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_instance")),
    )
    with op.batch_alter_table("instance", schema=None) as batch_op:
        batch_op.create_index("ix_instance_token", ["token"], unique=False)

    op.create_table(
        "interruption",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("instance", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("noticed_at", Instant(timezone=True), nullable=False),
        sa.Column("deadline", Instant(timezone=True), nullable=False),
        sa.Column("heard_at", Instant(timezone=True), nullable=False),
        sa.Column("resumed_at", Instant(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interruption")),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("queue", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("submitted_by", sa.String(length=128), nullable=False),
        sa.Column("submitted_at", Instant(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("intent", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before", Instant(timezone=True), nullable=True),
        sa.Column("not_on", sa.JSON(), nullable=False),
        sa.Column("waiting_since", Instant(timezone=True), nullable=True),
        sa.Column("ended_at", Instant(timezone=True), nullable=True),
        sa.Column("save_request", sa.Integer(), nullable=False),
        sa.Column("save_asked_at", Instant(timezone=True), nullable=True),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index("ix_job_state", ["state"], unique=False)
        batch_op.create_index("ix_job_team", ["team"], unique=False)

    op.create_table(
        "lease",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=128), nullable=True),
        sa.Column("until", Instant(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
    )
    op.create_table(
        "node",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("first_seen", Instant(timezone=True), nullable=False),
        sa.Column("last_seen", Instant(timezone=True), nullable=False),
        sa.Column("idle_since", Instant(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_node")),
    )
    op.create_table(
        "offering",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("cloud", sa.String(length=64), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("price_nano", sa.BigInteger(), nullable=False),
        sa.Column("fetched_at", Instant(timezone=True), nullable=False),
        sa.Column("not_before", Instant(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_offering")),
    )
    op.create_table(
        "operation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("args", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("not_before", Instant(timezone=True), nullable=True),
        sa.Column("lease_token", sa.String(length=64), nullable=True),
        sa.Column("lease_until", Instant(timezone=True), nullable=True),
        sa.Column("created_at", Instant(timezone=True), nullable=False),
        sa.Column("done_at", Instant(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation")),
        sa.UniqueConstraint("name", name=op.f("uq_operation_name")),
    )
    with op.batch_alter_table("operation", schema=None) as batch_op:
        batch_op.create_index("ix_operation_state", ["state"], unique=False)
        batch_op.create_index("ix_operation_target", ["target"], unique=False)

    op.create_table(
        "queue",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("parent", sa.String(length=64), nullable=True),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("min_runtime_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queue")),
    )
    op.create_table(
        "rate",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("applied_at", Instant(timezone=True), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rate")),
    )
    op.create_table(
        "team",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("queue", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_team")),
    )
    op.create_table(
        "team_token",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("made_at", Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_team_token")),
    )
    op.create_table(
        "usage_event",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=True),
        sa.Column("team", sa.String(length=64), nullable=True),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("recorded_at", Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_event")),
    )
    with op.batch_alter_table("usage_event", schema=None) as batch_op:
        batch_op.create_index("ix_usage_event_at", ["at"], unique=False)

    op.create_table(
        "attempt",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("decided_at", Instant(timezone=True), nullable=False),
        sa.Column("running_at", Instant(timezone=True), nullable=True),
        sa.Column("stopping_at", Instant(timezone=True), nullable=True),
        sa.Column("ended_at", Instant(timezone=True), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=False),
        sa.Column("interruption", sa.String(length=128), nullable=True),
        sa.Column("missing_since", Instant(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["job"], ["job.id"], name=op.f("fk_attempt_job")),
        sa.PrimaryKeyConstraint("job", "number", name=op.f("pk_attempt")),
    )
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.create_index(
            "one_live_attempt",
            ["job"],
            unique=True,
            sqlite_where=sa.text("state != 'ended'"),
            postgresql_where=sa.text("state != 'ended'"),
        )

    op.create_table(
        "claim",
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("task_id", sa.String(length=250), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("claimed_at", Instant(timezone=True), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["job.id"], name=op.f("fk_claim_job")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_claim")),
    )
    with op.batch_alter_table("claim", schema=None) as batch_op:
        batch_op.create_index("ix_claim_job", ["job"], unique=False)

    op.create_table(
        "member",
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("login", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name=op.f("fk_member_team"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("team", "login", name=op.f("pk_member")),
    )
    op.create_table(
        "project",
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name=op.f("fk_project_team"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("team", "name", name=op.f("pk_project")),
    )
    op.create_table(
        "quota",
        sa.Column("queue", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("deserved_grains", sa.BigInteger(), nullable=True),
        sa.Column("limit_grains", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["queue"], ["queue.name"], name=op.f("fk_quota_queue"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("queue", "model", name=op.f("pk_quota")),
    )
    op.create_table(
        "statement_line",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("gpu_hours", sa.String(length=40), nullable=False),
        sa.Column("total_nano", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["day"], ["day_status.day"], name=op.f("fk_statement_line_day"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("day", "team", "project", name=op.f("pk_statement_line")),
    )
    op.create_table(
        "team_dag",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name=op.f("fk_team_dag_team"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", name=op.f("pk_team_dag")),
    )
    op.create_table(
        "verdict",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("queue_position", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("unblock", sa.Text(), nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["job.id"], name=op.f("fk_verdict_job")),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_verdict")),
    )


def downgrade() -> None:

    op.drop_table("verdict")
    op.drop_table("team_dag")
    op.drop_table("statement_line")
    op.drop_table("quota")
    op.drop_table("project")
    op.drop_table("member")
    with op.batch_alter_table("claim", schema=None) as batch_op:
        batch_op.drop_index("ix_claim_job")

    op.drop_table("claim")
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.drop_index(
            "one_live_attempt", sqlite_where=sa.text("state != 'ended'"), postgresql_where=sa.text("state != 'ended'")
        )

    op.drop_table("attempt")
    with op.batch_alter_table("usage_event", schema=None) as batch_op:
        batch_op.drop_index("ix_usage_event_at")

    op.drop_table("usage_event")
    op.drop_table("team_token")
    op.drop_table("team")
    op.drop_table("rate")
    op.drop_table("queue")
    with op.batch_alter_table("operation", schema=None) as batch_op:
        batch_op.drop_index("ix_operation_target")
        batch_op.drop_index("ix_operation_state")

    op.drop_table("operation")
    op.drop_table("offering")
    op.drop_table("node")
    op.drop_table("lease")
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.drop_index("ix_job_team")
        batch_op.drop_index("ix_job_state")

    op.drop_table("job")
    op.drop_table("interruption")
    with op.batch_alter_table("instance", schema=None) as batch_op:
        batch_op.drop_index("ix_instance_token")

    op.drop_table("instance")
    op.drop_table("fleet")
    op.drop_table("day_status")
    op.drop_table("cluster")
    op.drop_table("checkpoint")
    op.drop_table("audit")
    with op.batch_alter_table("assignment", schema=None) as batch_op:
        batch_op.drop_index(
            "one_live_whole_gpu",
            sqlite_where=sa.text("live AND kind = 'whole'"),
            postgresql_where=sa.text("live AND kind = 'whole'"),
        )
        batch_op.drop_index(
            "one_live_slice",
            sqlite_where=sa.text("live AND kind = 'slice'"),
            postgresql_where=sa.text("live AND kind = 'slice'"),
        )
        batch_op.drop_index("ix_assignment_job")

    op.drop_table("assignment")
