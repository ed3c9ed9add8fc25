"""What a bill is made of: the ledger and the rates at one revision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from gpufleet.chargeback.days import first_instant, micros
from gpufleet.chargeback.rates import Rates
from gpufleet.errors import Invalid
from gpufleet.formats.events import event_of_row
from gpufleet.formats.rates import rates_of
from gpufleet.model.usage import UsageEvent
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger, world

ALL_TIME: Final = datetime.max.replace(tzinfo=UTC)
"""Rule 4: what lies after a day can still say something about it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a bill is made of, as the ledger has it at one revision."""

    events: list[UsageEvent]
    rates: Rates
    revision: int
    until: datetime
    """The latest instant that anything is known of, by the clusters' clocks, the events and our own clock."""

    def has_begun(self, day: date) -> bool:
        return first_instant(day, self.rates.timezone) <= micros(self.until)


def facts(fleet: Fleet) -> Facts:
    """Raises Invalid that names the rates file where no rates are configured."""
    file = fleet.home / "rates.yaml"
    with fleet.database.read() as connection:
        stored = ledger.rates(connection)
        if not stored:
            raise Invalid(f"No rates are configured: write {file} and apply it with gpufleet doctor --migrate.")
        rows = ledger.usage_until(connection, ALL_TIME)
        revision = ledger.ledger_revision(connection)
        clocks = [c.cluster_time for c in world.clusters(connection).values()]
    events = [event_of_row(row) for row in rows]
    until = max([fleet.clock.now(), *clocks, *(e.at for e in events)])
    return Facts(events, rates_of(stored, f"{file} (as applied)"), revision, until)
