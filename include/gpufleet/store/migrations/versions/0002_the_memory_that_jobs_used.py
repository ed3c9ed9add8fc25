"""the memory that jobs used"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gpufleet.store.schema import Instant

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memory_peak",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("team", sa.String(length=64), nullable=False),
        sa.Column("workload", sa.String(length=200), nullable=True),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("device_mib", sa.BigInteger(), nullable=True),
        sa.Column("allocator_mib", sa.BigInteger(), nullable=True),
        sa.Column("killed", sa.Boolean(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["job.id"], name=op.f("fk_memory_peak_job")),
        sa.PrimaryKeyConstraint("job", "attempt", name=op.f("pk_memory_peak")),
    )
    with op.batch_alter_table("memory_peak", schema=None) as batch_op:
        batch_op.create_index("ix_memory_peak_workload", ["workload"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("memory_peak", schema=None) as batch_op:
        batch_op.drop_index("ix_memory_peak_workload")

    op.drop_table("memory_peak")
