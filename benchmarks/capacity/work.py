"""The month's work, drawn from one seed: services with a daily curve, and training as Philly's and Acme's jobs are.

Stated assumptions: 48 GPUs of production inference at night, 80 at noon, three tenths less at weekends, +-5 % from day to
day; training of 120 GPUs on average with durations and sizes of Philly's jobs (capped at 72 h), of its 8-GPU jobs a fifth
as gangs of 16 and a tenth of 32 (Acme's clusters run such); arrivals twice as likely in office hours; four fifths save
every 10 minutes and may be interrupted, one fifth may not.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from benchmarks.experiments import PROJECT
from gpufleet.procurement.demand import Class, Promise, Ran

MODEL: Final = "H100-80"
TICK: Final = 10
"""Minutes."""
PER_HOUR: Final = 60 // TICK
PER_DAY: Final = 24 * PER_HOUR
BEGIN: Final = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday."""
HISTORY_DAYS, MONTH_DAYS = 28, 28
TRAINING_GPUS: Final = 120
NIGHT, NOON = 48, 80
LONGEST: Final = 72 * 60
"""Minutes."""
INTERRUPTIBLE: Final = 0.8
PHILLY: Final = PROJECT / "benchmarks" / "data" / "philly" / "philly_job_distribution.csv.gz"


@dataclass(frozen=True, slots=True)
class Gang:
    """Training: so many minutes of work on so many GPUs, asked for at a tick."""

    number: int
    tick: int
    gpus: int
    minutes: int
    interruptible: bool

    @property
    def of(self) -> Class:
        promise = Promise.INTERRUPTIBLE if self.interruptible else Promise.FIRM
        return Class(promise, MODEL, self.gpus, self.gpus > 8)


def services(days: int, seed: int) -> list[int]:
    """GPUs that inference needs, tick by tick."""
    random = Random(f"services {seed}")
    found = []
    for day in range(days):
        level = (0.7 if day % 7 >= 5 else 1.0) * random.uniform(0.95, 1.05)
        for tick in range(PER_DAY):
            sun = max(0.0, math.sin(math.pi * (tick / PER_HOUR - 6) / 12))
            found.append(round(level * (NIGHT + (NOON - NIGHT) * sun)))
    return found


def training(days: int, seed: int) -> list[Gang]:
    """Gangs in the order they are asked for; the fleet is as full at the beginning as it stays."""
    random, jobs = Random(f"training {seed}"), _philly()
    mean = sum(gpus * minutes for minutes, gpus in jobs) / len(jobs) / 60 * 1.35  # the tail of larger gangs
    rate = TRAINING_GPUS / mean / PER_HOUR
    found: list[Gang] = []
    for tick in range(-3 * PER_DAY, days * PER_DAY):
        hour = tick // PER_HOUR % 24
        for _ in range(_poisson(random, rate * (1.5 if 8 <= hour < 20 else 0.5))):
            minutes, gpus = jobs[random.randrange(len(jobs))]
            if gpus == 8:
                chance = random.random()
                gpus = 32 if chance < 0.1 else 16 if chance < 0.3 else 8
            found.append(Gang(len(found), tick, gpus, minutes, random.random() < INTERRUPTIBLE))
    return found


def _poisson(random: Random, rate: float) -> int:
    limit, product, count = math.exp(-rate), random.random(), 0
    while product > limit:
        product, count = product * random.random(), count + 1
    return count


def _philly() -> list[tuple[int, int]]:
    text = gzip.decompress(PHILLY.read_bytes()).decode()
    rows = csv.DictReader(io.StringIO(text))
    return [(min(LONGEST, int(float(row["run_time_s"]) / 60)), int(row["num_gpus"])) for row in rows]


def history(gangs: Iterable[Gang], serving: list[int], days: int) -> list[Ran]:
    """What ran in each hour of the first days, as the fleet's ledger would tell it."""
    ran: dict[tuple[int, Class], int] = defaultdict(int)
    service = Class(Promise.SERVICE, MODEL)
    for hour in range(days * 24):
        ran[hour, service] = max(serving[hour * PER_HOUR : (hour + 1) * PER_HOUR])
    for gang in gangs:
        last = gang.tick + math.ceil(gang.minutes / TICK)
        for hour in range(max(0, gang.tick // PER_HOUR), min(days * 24, math.ceil(last / PER_HOUR))):
            ran[hour, gang.of] += 1
    return [Ran(BEGIN + timedelta(hours=hour), of, count) for (hour, of), count in sorted(ran.items())]
