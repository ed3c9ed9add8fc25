"""The charges that the ledger makes of a day today, and a day settled with them. The one place where months meet the metering."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from gpufleet.chargeback.billing import itemised
from gpufleet.errors import Invalid
from gpufleet.model.charge import Charge
from gpufleet.services.fleet import Fleet
from gpufleet.services.ledger_facts import Facts
from gpufleet.services.settle_day import settle_day
from gpufleet.store import months


def metered(known: Facts, day: date) -> Iterator[Charge]:
    """What the facts make of the day, by id."""
    events = known.events if known.has_begun(day) else []
    yield from sorted(itemised(events, known.rates, day)[1], key=lambda charge: charge.id)


def settle_again(fleet: Fleet, day: date, standing: str) -> None:
    """Publish the day with what is known now, and give it this standing. Raises Invalid for a day of a closed month."""
    text = day.isoformat()
    with fleet.database.read() as connection:
        if months.standing_close(connection, text[:7]) is not None:
            raise Invalid(f"{text} is closed with its month: what comes late becomes a correction.")
    settle_day(fleet, text, standing=standing)
