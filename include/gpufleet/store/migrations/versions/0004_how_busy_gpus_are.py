"""how busy the GPUs of an attempt are"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gpufleet.store.schema import Instant

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.add_column(sa.Column("busy", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("idle_since", Instant(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.drop_column("idle_since")
        batch_op.drop_column("busy")
