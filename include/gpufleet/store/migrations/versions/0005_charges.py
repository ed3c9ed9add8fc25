"""charges of days"""

from __future__ import annotations

from alembic import op

from gpufleet.store.tables.charges import charge

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    charge.create(op.get_bind())


def downgrade() -> None:
    charge.drop(op.get_bind())
