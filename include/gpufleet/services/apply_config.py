"""Writes teams, queues and rates into the database, where every process reads them."""

from __future__ import annotations

from typing import Any

from gpufleet.model.tenancy import Queue, Team
from gpufleet.services.fleet import Fleet
from gpufleet.store import leases, ledger, tenancy


def apply_config(fleet: Fleet, teams: tuple[Team, ...], queues: tuple[Queue, ...], rates: dict[str, Any]) -> None:
    """Make the database say exactly what the files say; running work keeps the queue it was submitted to."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        leases.ensure_fleet(connection, fleet.id)
        tenancy.replace_tenancy(connection, teams, queues)
        ledger.put_rates(connection, rates, now)
        ledger.audit(connection, now, "config", "apply", fleet.id, f"{len(teams)} teams, {len(queues)} queues")
        leases.touch(connection)
