"""The charges that the ledger makes of days today, and days settled with them. The one place where months meet the metering."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from gpufleet.errors import Invalid
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import facts
from gpufleet.services.settle_day import settle_days
from gpufleet.store import months
from gpufleet.store.laid_aside import InFile


def metered(fleet: Fleet, days: Sequence[date], rates: dict[str, Any]) -> InFile:
    """What the ledger and these rates make of the days now, by their date."""
    known, found = facts(fleet, days, rates), InFile(fleet.home)
    for day in days:
        for charge in known.itemised(day)[1]:
            found.put(day, charge)
    return found


def settle_again(fleet: Fleet, days: Sequence[date], standing: str) -> None:
    """Publish the days with what is known now, and give them this standing. Raises Invalid for a day of a closed month."""
    for day in days:
        text = day.isoformat()
        with fleet.database.read() as connection:
            if months.standing_close(connection, text[:7]) is not None:
                raise Invalid(f"{text} is closed with its month: what comes late becomes a correction.")
    settle_days(fleet, days, standing=standing)
