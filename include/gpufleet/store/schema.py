"""Every table under one name, for queries (`schema.job`) and for Alembic."""

from gpufleet.store.tables.charges import charge
from gpufleet.store.tables.columns import Instant, metadata
from gpufleet.store.tables.money import day_status, rate, statement_line, usage_event
from gpufleet.store.tables.months import booked_charge, budget_alert, month_close, reconciliation
from gpufleet.store.tables.places import cluster, instance, interruption, node, offering
from gpufleet.store.tables.tenancy import audit, fleet, lease, member, project, queue, quota, team, team_dag, team_token
from gpufleet.store.tables.work import assignment, attempt, checkpoint, claim, job, memory_peak, operation, verdict

__all__ = [
    "Instant",
    "assignment",
    "attempt",
    "audit",
    "booked_charge",
    "budget_alert",
    "charge",
    "checkpoint",
    "claim",
    "cluster",
    "day_status",
    "fleet",
    "instance",
    "interruption",
    "job",
    "lease",
    "member",
    "memory_peak",
    "metadata",
    "month_close",
    "node",
    "offering",
    "operation",
    "project",
    "queue",
    "quota",
    "rate",
    "reconciliation",
    "statement_line",
    "team",
    "team_dag",
    "team_token",
    "usage_event",
    "verdict",
]
