"""months that are closed, and what may not be changed in them"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gpufleet.store.schema import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

GUARDED = ("charge", "booked_charge", "day_status", "statement_line")
"""Tables whose rows belong to a day."""


def _charge_columns() -> list[sa.Column[Any]]:
    texts = {
        "kind": 16,
        "team": 64,
        "project": 64,
        "job": 64,
        "node": 128,
        "profile": 32,
        "fraction": 64,
        "model": 64,
        "capacity": 16,
        "provider": 64,
        "region": 64,
        "quota": 16,
        "commitment": 64,
        "corrects": 7,
    }
    return [
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        *(sa.Column(name, sa.String(length), nullable=False) for name, length in texts.items()),
        *(sa.Column(name, Instant(timezone=True), nullable=False) for name in ("begin", "end")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("cost_nano", "billed_nano", "hours_nano")),
        *(sa.Column(name, sa.BigInteger()) for name in ("list_price_nano", "price_nano")),
        *(sa.Column(name, sa.Integer()) for name in ("attempt", "gpu", "start")),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
    ]


def upgrade() -> None:
    op.create_table("booked_charge", *_charge_columns(), sa.PrimaryKeyConstraint("day", "id", name="pk_booked_charge"))
    op.create_table(
        "month_close",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("closed_at", Instant(timezone=True), nullable=False),
        sa.Column("closed_by", sa.String(128), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("total_nano", sa.BigInteger(), nullable=False),
        sa.Column("reopened_at", Instant(timezone=True)),
        sa.Column("reopened_by", sa.String(128)),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("month", "version", name="pk_month_close"),
    )
    op.create_table(
        "reconciliation",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("provider", sa.String(16), nullable=False),
        sa.Column("made_at", Instant(timezone=True), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("month", "provider", name="pk_reconciliation"),
    )
    op.create_table(
        "budget_alert",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("team", sa.String(64), nullable=False),
        sa.Column("threshold", sa.Integer(), nullable=False),
        sa.Column("at", Instant(timezone=True), nullable=False),
        sa.Column("actual", sa.BigInteger(), nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("month", "team", "threshold", name="pk_budget_alert"),
    )
    for statement in _guards(op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table in GUARDED:
        names = [f"closed_{table}_{verb}" for verb in ("insert", "update", "delete")] if sqlite else [f"closed_{table}"]
        for name in names:
            op.execute(f"DROP TRIGGER {name}" + ("" if sqlite else f" ON {table}"))
    op.execute("DROP TRIGGER kept_close" + ("" if sqlite else " ON month_close"))
    if not sqlite:
        op.execute("DROP FUNCTION refuse_closed_day()")
        op.execute("DROP FUNCTION refuse_forgetting()")
    for table in ("budget_alert", "reconciliation", "month_close", "booked_charge"):
        op.drop_table(table)


def _guards(dialect: str) -> list[str]:
    return _sqlite() if dialect == "sqlite" else _postgresql()


def _sqlite() -> list[str]:
    found = []
    for table in GUARDED:
        for verb, rows in (("insert", ("NEW",)), ("update", ("OLD", "NEW")), ("delete", ("OLD",))):
            months = ", ".join(f"substr({row}.day, 1, 7)" for row in rows)
            found.append(
                f"CREATE TRIGGER closed_{table}_{verb} BEFORE {verb.upper()} ON {table} "
                f"WHEN EXISTS (SELECT 1 FROM month_close WHERE reopened_at IS NULL AND month IN ({months})) "
                "BEGIN SELECT RAISE(ABORT, 'the month is closed'); END"
            )
    found.append(
        "CREATE TRIGGER kept_close BEFORE DELETE ON month_close "
        "BEGIN SELECT RAISE(ABORT, 'a close stays written down'); END"
    )
    return found


def _postgresql() -> list[str]:
    return [
        "CREATE FUNCTION refuse_closed_day() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF TG_OP <> 'INSERT' AND EXISTS (SELECT 1 FROM month_close WHERE reopened_at IS NULL "
        "AND month = left(OLD.day::text, 7)) THEN RAISE EXCEPTION 'the month is closed'; END IF; "
        "IF TG_OP <> 'DELETE' AND EXISTS (SELECT 1 FROM month_close WHERE reopened_at IS NULL "
        "AND month = left(NEW.day::text, 7)) THEN RAISE EXCEPTION 'the month is closed'; END IF; "
        "IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$",
        *(
            f"CREATE TRIGGER closed_{table} BEFORE INSERT OR UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION refuse_closed_day()"
            for table in GUARDED
        ),
        "CREATE FUNCTION refuse_forgetting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'a close stays written down'; END $$",
        "CREATE TRIGGER kept_close BEFORE DELETE ON month_close FOR EACH ROW EXECUTE FUNCTION refuse_forgetting()",
    ]
