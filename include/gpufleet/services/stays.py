"""What became of the spot machines we had: who of them the cloud took back, and how long they stayed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import inf
from typing import Any, Final

from sqlalchemy import Connection, Row

from gpufleet.model.capacity import CapacityType
from gpufleet.model.workload import Job, Kind
from gpufleet.procurement.choose import Estimates, Purchase
from gpufleet.procurement.demand import DemandPolicy
from gpufleet.procurement.spot.history import REMEMBERED, UNKNOWN, Stay, lives
from gpufleet.procurement.spot.ranking import Estimate, Trip, estimate
from gpufleet.store import world

HOUR: Final = timedelta(hours=1)
SERVES: Final = timedelta(days=7)
"""What a service is expected to go on for, when one offering is weighed against another."""


def expected_lives(connection: Connection, now: datetime) -> Mapping[str, float]:
    """Hours that machines bought now are expected to stay, by offering we have had lately."""
    taken = world.taken_back(connection, now - REMEMBERED)
    purchases: dict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
    for row in world.instances_since(connection, now - REMEMBERED):
        purchases[row.offering, row.token].append(row)
    return lives((_stay(rows, taken) for rows in purchases.values()), now)


def _stay(rows: list[Row[Any]], taken: set[str]) -> Stay:
    """One purchase: it ended, for the gang on it, with the first machine that the cloud took."""
    lost = [row for row in rows if row.name in taken]
    ends = [row.ended_at for row in lost or rows]
    ended = None if None in ends and not lost else min((e for e in ends if e is not None), default=None)
    return Stay(rows[0].offering, min(row.recorded_at for row in rows), ended, bool(lost))


def estimates_for(job: Job, stays: Mapping[str, float], left: timedelta | None) -> Estimates:
    """What an hour of the job's work costs with a purchase, from how long its machines are expected to stay.

    `left` is the work left; None where it never ends, or nobody said.
    """
    policy = DemandPolicy()
    work = left or (SERVES if job.kind is Kind.INFERENCE else policy.unknown_runtime)
    lost = job.checkpoint.interval / 2 if job.kind is Kind.TRAINING else timedelta(0)
    trip = Trip(start=policy.restart / HOUR, lost=lost / HOUR, work=work / HOUR)

    def weighed(purchase: Purchase) -> Estimate:
        spot = purchase.offering.capacity is CapacityType.SPOT
        return estimate(purchase.hourly, stays.get(purchase.offering.name, UNKNOWN) if spot else inf, trip)

    return weighed
