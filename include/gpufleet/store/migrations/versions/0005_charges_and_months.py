"""charges of every day, and months that are closed: the database itself refuses a change to those"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gpufleet.store.schema import Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SAID = "this month is closed: later facts become corrections"


def upgrade() -> None:
    op.create_table(
        "charge",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("id", sa.String(24), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("begin", Instant(timezone=True), nullable=False),
        sa.Column("end", Instant(timezone=True), nullable=False),
        sa.Column("team", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("cost_nano", sa.BigInteger(), nullable=False),
        sa.Column("billed_nano", sa.BigInteger(), nullable=False),
        sa.Column("hours_nano", sa.BigInteger(), nullable=False),
        sa.Column("list_price_nano", sa.BigInteger(), nullable=True),
        sa.Column("price_nano", sa.BigInteger(), nullable=True),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("node", sa.String(128), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=True),
        sa.Column("profile", sa.String(32), nullable=False),
        sa.Column("start", sa.Integer(), nullable=True),
        sa.Column("fraction", sa.String(90), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("capacity", sa.String(32), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("region", sa.String(64), nullable=False),
        sa.Column("quota", sa.String(16), nullable=False),
        sa.Column("commitment", sa.String(200), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("corrects", sa.String(7), nullable=False),
        sa.Column("note", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("day", "id", name=op.f("pk_charge")),
    )
    op.create_index("ix_charge_order", "charge", ["day", "team", "project", "job"])
    op.create_table(
        "month",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("closed_at", Instant(timezone=True), nullable=False),
        sa.Column("closed_by", sa.String(64), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("total_nano", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("history", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("month", name=op.f("pk_month")),
    )
    for statement in _fences(op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    for statement in _unfenced(op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_table("month")
    op.drop_index("ix_charge_order", table_name="charge")
    op.drop_table("charge")


GUARDED = {"charge": "day", "statement_line": "day", "day_status": "day"}


def _fences(dialect: str) -> list[str]:
    """One for each table whose rows belong to a day, and each way to change it."""
    if dialect == "postgresql":
        return _postgres()
    return [
        f"CREATE TRIGGER closed_{table}_{way.lower()} BEFORE {way} ON {table} WHEN EXISTS (SELECT 1 FROM month "
        f"WHERE month.state = 'closed' AND month.month = substr({row}.{day}, 1, 7)) "
        f"BEGIN SELECT RAISE(ABORT, '{SAID}'); END"
        for table, day in GUARDED.items()
        for way, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD"))
    ]


def _postgres() -> list[str]:
    body = (
        "CREATE FUNCTION refuse_closed_month() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE which text; BEGIN "
        "IF TG_OP = 'INSERT' THEN which := substr(NEW.day::text, 1, 7); ELSE which := substr(OLD.day::text, 1, 7); END IF; "
        "IF EXISTS (SELECT 1 FROM month WHERE month.state = 'closed' AND month.month = which) "
        f"THEN RAISE EXCEPTION '{SAID}'; END IF; "
        "IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$"
    )
    each = [
        f"CREATE TRIGGER closed_{table} BEFORE INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_closed_month()"
        for table in GUARDED
    ]
    return [body, *each]


def _unfenced(dialect: str) -> list[str]:
    if dialect == "postgresql":
        return [
            *(f"DROP TRIGGER closed_{table} ON {table}" for table in GUARDED),
            "DROP FUNCTION refuse_closed_month()",
        ]
    return [f"DROP TRIGGER closed_{table}_{way}" for table in GUARDED for way in ("insert", "update", "delete")]
