"""A month as finance reads it: its statement to date, its budgets with their alerts, its closes and reconciliations."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import date, timedelta
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection

from gpufleet.chargeback.budgets import LOOKS_BACK, Span, crossed, team_budget
from gpufleet.chargeback.currencies import MINOR_UNITS
from gpufleet.chargeback.finance import Finance
from gpufleet.chargeback.month import MonthToDate, fold, month_statement
from gpufleet.chargeback.waste import wasted
from gpufleet.errors import NotFound
from gpufleet.model.statement import Standing, Statement, TeamBudget
from gpufleet.services.close_month import told
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import ALL_TIME
from gpufleet.services.memory_report import over_asked
from gpufleet.services.month_charges import (
    Month,
    credits,
    daily_cost,
    finance,
    idle_stretches,
    losses,
    month_charges,
    month_named,
)
from gpufleet.store import ledger, months

LADDER: Final = (Standing.PROVISIONAL, Standing.ESTIMATED, Standing.RECONCILED, Standing.CLOSED)


def statement_of(fleet: Fleet, text: str, until: date | None = None) -> Statement:
    """The month up to its last published day (before `until`). Raises NotFound where no day of it was published."""
    month, policy = month_named(text), finance(fleet)
    shown = month if until is None else replace(month, end=min(month.end, until))
    with fleet.database.read() as connection:
        states = months.day_states(connection, shown.begin, shown.end)
        if not states:
            raise NotFound(f"No day of {month.id} was published yet: settle its days first.")
        closed = months.standing_close(connection, month.id)
        # a closed month has its credits booked; an open one is shown with those that the policy gives so far
        given = [] if closed is not None else credits(connection, shown, policy)
        booked = {(c.day, c.id) for c in given}
        nights = (c for c in month_charges(connection, shown) if (c.day, c.id) not in booked)
        end = date.fromisoformat(max(states)) + timedelta(days=1)
        about = MonthToDate(
            currency=str(ledger.rates(connection)["currency"]),
            begin=month.begin,
            end=end,
            standing=Standing.CLOSED if closed is not None else min((Standing(s) for s in states.values()), key=_rung),
            revision=closed.revision if closed is not None else ledger.ledger_revision(connection),
        )
        exact = fold(chain(nights, given), losses(connection))
        return month_statement(about, exact, _budgets(connection, month, end, policy, about.currency))


def note_alerts(fleet: Fleet, text: str) -> list[dict[str, Any]]:
    """Thresholds of budgets that were reached since the last call; each is told once a month."""
    month, policy, found = month_named(text), finance(fleet), []
    budgets = statement_of(fleet, text).budgets
    with fleet.database.write() as connection:
        for team in budgets:
            for threshold in crossed(team, policy.alerts):
                facts = {"at": fleet.clock.now(), "actual": team.actual, "budget": team.budget or 0}
                if months.note_alert(connection, month.id, team.team, threshold, **facts):
                    found.append({"team": team.team, "threshold": threshold, **facts})
    return found


def month_view(fleet: Fleet, text: str) -> dict[str, Any]:
    """Statement, budgets, alerts, closes and reconciliations of the month, as plain values."""
    statement = statement_of(fleet, text)
    with fleet.database.read() as connection:
        closes = [told(c) | {"reopened_by": c.reopened_by, "why": c.why} for c in months.closes(connection, text)]
        reports = [{"provider": r.provider, **r.report} for r in months.reconciliations(connection, text)]
        alerts = [
            {"team": a.team, "threshold": a.threshold, "actual": a.actual, "budget": a.budget}
            for a in months.alerts(connection, text)
        ]
        wasted_by = wasted(
            month_charges(connection, month_named(text)),
            losses(connection),
            idle_stretches(connection, ALL_TIME),
            over_asked(connection, {c.job for c in month_charges(connection, month_named(text)) if c.job}),
        )
    return {
        "month": text,
        "to": statement.end.isoformat(),
        "standing": statement.standing.value,
        "revision": statement.revision,
        "currency": statement.currency,
        "decimals": statement.decimals,
        "total": statement.total,
        "idle_cost": statement.idle_cost,
        "unused_cost": statement.unused_cost,
        "rows": [asdict(r) | {"day": r.day.isoformat(), "total": r.total} for r in statement.rows],
        "budgets": [asdict(b) for b in statement.budgets],
        "wasted": [asdict(w) for w in wasted_by],
        "alerts": alerts,
        "closes": closes,
        "reconciliations": reports,
    }


def _rung(standing: Standing) -> int:
    return LADDER.index(standing)


def _budgets(
    connection: Connection, month: Month, today: date, policy: Finance, currency: str
) -> tuple[TeamBudget, ...]:
    """Of each team that cost anything or has a budget, by name."""
    since = month.begin - timedelta(days=LOOKS_BACK)
    known = months.day_states(connection, since, month.end)
    around = Month(month.id, since, month.end)
    cost = daily_cost(month_charges(connection, around))
    span = Span(date.fromisoformat(min(known)), month.begin, today, month.end)
    return tuple(
        team_budget(team, cost.get(team, {}), policy.budgets.get(team), span, MINOR_UNITS[currency])
        for team in sorted({*cost, *policy.budgets})
    )
