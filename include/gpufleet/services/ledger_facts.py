"""What a bill is made of: the ledger and the rates at one revision, read in one go and one node after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row

from gpufleet.chargeback import Bill
from gpufleet.chargeback.days import EPOCH, first_instant, micros
from gpufleet.chargeback.nights import Nights, nights
from gpufleet.chargeback.rates import Rates
from gpufleet.errors import Invalid
from gpufleet.formats.events import event_of_row
from gpufleet.formats.rates import rates_of
from gpufleet.model.charge import Charge
from gpufleet.model.usage import UsageEvent
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger, world
from gpufleet.store.laid_aside import InFile

ALL_TIME: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a bill is made of, as the ledger has it at one revision."""

    nights: Nights
    revision: int
    until: datetime
    """The latest instant that anything is known of, by the clusters' clocks, the events and our own clock."""
    _fleet: Fleet

    @property
    def rates(self) -> Rates:
        return self.nights.rates

    def itemised(self, day: date) -> tuple[Bill, Iterator[Charge], Sequence[UsageEvent]]:
        """Of one of the days that were asked for: its bill, its charges, and what the bill can be held against.

        Use without an end runs on (rule 16), but not into a day that has not begun: nobody knows anything of it.
        """
        known = self.nights
        if first_instant(day, self.rates.timezone) > micros(self.until):
            known = nights([], self.rates, [day], InFile(self._fleet.home))
        return *known.itemised(day, InFile(self._fleet.home)), known.facts.witnesses


def facts(fleet: Fleet, days: Sequence[date], told: dict[str, Any] | None = None) -> Facts:
    """Of these days, by the rates `told` or those that are in force.

    Raises Invalid that names the rates file where no rates are configured.
    """
    file = fleet.home / "rates.yaml"
    with fleet.database.read() as connection:
        stored = told or ledger.rates(connection)
        if not stored:
            raise Invalid(f"No rates are configured: write {file} and apply it with gpufleet doctor --migrate.")
        rates = rates_of(stored, f"{file} (as applied)")
        clocks = [c.cluster_time for c in world.clusters(connection).values()]
        last = ledger.last_instant(connection)
        until = max([fleet.clock.now(), *clocks, *([last] if last else [])])
        since = min((EPOCH + timedelta(microseconds=first_instant(day, rates.timezone)) for day in days), default=until)
        found = nights(
            _told(ledger.usage_by_node(connection, since)),
            rates,
            days,
            InFile(fleet.home),
            past=lambda jobs: _told(ledger.usage_of_past_nodes(connection, since, jobs)),
        )
        return Facts(found, ledger.ledger_revision(connection), until, fleet)


def _told(nodes: Iterable[list[Row[Any]]]) -> Iterator[list[UsageEvent]]:
    for rows in nodes:
        yield [event_of_row(row) for row in rows]
