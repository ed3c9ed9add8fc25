"""What became of the spot machines we had: who of them the cloud took back, and how long they stayed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import inf
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from gpufleet.lifecycle.cadence import best_interval
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.model.workload import Job, Kind
from gpufleet.procurement.choose import Estimates, Purchase
from gpufleet.procurement.demand import DemandPolicy
from gpufleet.procurement.spot.history import REMEMBERED, UNKNOWN, Stay, lives
from gpufleet.procurement.spot.ranking import Estimate, Trip, estimate
from gpufleet.store import places, world
from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks
from gpufleet.store.jobs import JobRow

HOUR: Final = timedelta(hours=1)
LEAST: Final = timedelta(minutes=1)
"""No job is asked to save more often than this."""
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


def newest_sizes(connection: Connection, of: Iterable[str]) -> dict[str, int]:
    """Bytes of the newest save of each of these jobs, what an attempt elsewhere must fetch first."""
    c = t.checkpoint.c
    return {
        row.job: row.bytes
        for some in chunks(of)
        for row in connection.execute(select(c.job, c.bytes).where(c.job.in_(some)).order_by(c.at))
    }


def save_intervals(
    connection: Connection, rows: Mapping[str, JobRow], held: places.Pods, now: datetime
) -> dict[str, timedelta]:
    """How often training that stands on spot should save, where it has told how long a save takes; its own interval is
    the most (`cadence.best_interval`)."""
    took = {id: seconds for id, row in rows.items() if (seconds := _save_seconds(row))}
    if not took:
        return {}
    offerings = {row.name: row.offering for row in world.instances(connection)}
    spot = {
        node.name: offerings.get(node.instance or "", "")
        for node in world.nodes(connection)
        if node.capacity is CapacityType.SPOT
    }
    stays, notice = expected_lives(connection, now), world.shortest_notice(connection, now - REMEMBERED)
    found = {}
    for (job, _), pods in held.items():
        on = {spot[pod.node] for pod in pods if pod.node in spot}
        if job in took and on:
            between = min(stays.get(offering, UNKNOWN) for offering in on) * HOUR
            most = rows[job].job.checkpoint.interval
            found[job] = best_interval(took[job], between, notice, min(LEAST, most), most)
    return found


def _save_seconds(row: JobRow) -> timedelta | None:
    seconds = ((row.progress or {}).get("last_save") or {}).get("seconds")
    return timedelta(seconds=seconds) if seconds else None


def estimates_for(
    job: Job, stays: Mapping[str, float], left: timedelta | None, egress: Callable[[Offering], Fraction]
) -> Estimates:
    """What an hour of the job's work costs with a purchase, from how long its machines are expected to stay.

    `left` is the work left; None where it never ends, or nobody said. `egress`: what it costs to bring its data there.
    """
    policy = DemandPolicy()
    work = left or (SERVES if job.kind is Kind.INFERENCE else policy.unknown_runtime)
    lost = job.checkpoint.interval / 2 if job.kind is Kind.TRAINING else timedelta(0)
    trip = Trip(start=policy.restart / HOUR, lost=lost / HOUR, work=work / HOUR)

    def weighed(purchase: Purchase) -> Estimate:
        spot = purchase.offering.capacity is CapacityType.SPOT
        stay = stays.get(purchase.offering.name, UNKNOWN) if spot else inf
        return estimate(purchase.hourly, stay, trip, egress(purchase.offering))

    return weighed
