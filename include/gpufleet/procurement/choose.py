"""The cheapest purchase that is known to place the job that waits. Pure: a what-if is handed in, nothing is bought here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from gpufleet.model.capacity import Offering
from gpufleet.model.workload import Job, Whole
from gpufleet.procurement.spot.ranking import Estimate

Places = Callable[[Offering, int], bool]
"""What-if: would the job be placed with so many more nodes of that offering?"""


@dataclass(frozen=True, slots=True)
class Purchase:
    """Buy `count` of `offering` for `job`; `hourly` is what it costs more each hour, `why` what spoke for it."""

    offering: Offering
    count: int
    job: str
    why: str = ""

    @property
    def hourly(self) -> Fraction:
        return self.offering.price * self.count


Estimates = Callable[[Purchase], Estimate]
"""What an hour of the job's work will cost with a purchase."""


def allowed(offering: Offering, job: Job, now: datetime, not_before: datetime | None) -> bool:
    """Whether this offering may serve the job: sold now, of a model and capacity type it takes, not just failed."""
    if not offering.available or (not_before is not None and not_before > now):
        return False
    return (not job.models or offering.model in job.models) and (not job.capacity or offering.capacity in job.capacity)


def largest_count(job: Job, offering: Offering) -> int:
    """Nodes that hold the job even when each node takes as few of its pods as it can."""
    whole = [s.demand.gpus for s in job.pod_sets if isinstance(s.demand, Whole)]
    if whole and max(whole) > offering.gpus:
        return 0
    return sum(-(-s.count // _pods_per_node(s.demand, offering)) for s in job.pod_sets)


def _pods_per_node(demand: object, offering: Offering) -> int:
    return max(1, offering.gpus // demand.gpus) if isinstance(demand, Whole) else offering.gpus


def cheapest(
    job: Job, offerings: tuple[Offering, ...], places: Places, room: Fraction, estimates: Estimates
) -> Purchase | None:
    """The least cost for an hour of work, within `room` for each hour, with which `places` says yes.

    Ties by the hourly price, then by the offering's name.
    """
    options = [Purchase(o, n, job.id) for o in offerings for n in range(1, largest_count(job, o) + 1)]
    priced = sorted(
        ((estimates(p), p) for p in options if p.hourly <= room),
        key=lambda found: (*found[0].order, found[1].hourly, found[1].offering.name),
    )
    return next((replace(p, why=e.reason) for e, p in priced if places(p.offering, p.count)), None)
