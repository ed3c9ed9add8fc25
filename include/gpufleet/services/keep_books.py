"""What a night does beside its own day: older days, closed months, budgets."""

from __future__ import annotations

from typing import Any

import structlog

from gpufleet.services.close_month import close_due_months, correct_closed_months, estimate_days
from gpufleet.services.fleet import Fleet
from gpufleet.services.show_month import note_alerts

log = structlog.get_logger()


def keep_books(fleet: Fleet, day: str) -> dict[str, Any]:
    """Estimate days that are old enough, correct closed months, close those that are due, tell of budgets. Safe to repeat."""
    estimated = estimate_days(fleet)
    corrected = correct_closed_months(fleet)
    closed = close_due_months(fleet)
    alerts = note_alerts(fleet, day[:7])
    for alert in alerts:
        log.warning(
            "budget", team=alert["team"], per_cent=alert["threshold"], actual=alert["actual"], budget=alert["budget"]
        )
    return {
        "day": day,
        "estimated": estimated,
        "corrections": len(corrected),
        "closed": closed,
        "alerts": [{"team": a["team"], "per_cent": a["threshold"]} for a in alerts],
    }
