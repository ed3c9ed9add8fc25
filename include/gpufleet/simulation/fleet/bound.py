"""What no policy can exceed: the work finished by the last arrival if GPUs were a fluid.

Every job may run at any rate up to its GPUs from its arrival on, stop and go on for nothing, and fit whatever is free.
The most work is then done by whoever has the longest time left to run at full rate (equal times go down together);
for one common deadline and rates bounded job by job that is a maximum flow (checked against a linear program in the
tests). Jobs that would end after the deadline even when started on arrival count for nothing, as in the metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpufleet.simulation.fleet.workload import Work

Floats = NDArray[np.float64]
NOTHING: Final = 1e-9
"""Seconds of work below which a job is done."""


def fluid_bound(works: Sequence[Work], gpus: int, deadline: float) -> float:
    """GPU-seconds of training that could be finished by the deadline; `works` in order of arrival."""
    able = [w for w in works if not w.is_replica and w.arrives + w.seconds <= deadline]
    left, rates, done = np.zeros(0), np.zeros(0), 0.0
    for work, until in zip(able, [*(w.arrives for w in able[1:]), deadline], strict=False):
        left, rates = np.append(left, work.seconds), np.append(rates, float(work.gpus))
        run = _run(left, rates, float(gpus), until - work.arrives)
        done += float(run @ rates)
        left = left - run
        left, rates = left[left > NOTHING], rates[left > NOTHING]
    return done


def _run(left: Floats, rates: Floats, gpus: float, seconds: float) -> Floats:
    """Seconds at full rate for every job in an interval, those first that have the longest left."""
    most = np.minimum(left, seconds)
    if float(most @ rates) <= gpus * seconds:
        return most
    return np.clip(left - _level(left, rates, gpus * seconds, seconds), 0.0, seconds)


def _level(left: Floats, rates: Floats, capacity: float, seconds: float) -> float:
    """Down to what remaining time jobs come if together they do `capacity`; nobody runs longer than `seconds`.

    Work done falls with the level and is linear between the points where a job begins (`left`) or stops being held
    back (`left - seconds`).
    """
    points = np.unique(np.concatenate((left, np.maximum(left - seconds, 0.0))))
    low, high = 0, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _done(points[middle], left, rates, seconds) > capacity else (low, middle)
    above, below = (_done(points[i], left, rates, seconds) for i in (low, high))
    part = (above - capacity) / (above - below) if above > below else 0.0
    return float(points[low] + part * (points[high] - points[low]))


def _done(level: float, left: Floats, rates: Floats, seconds: float) -> float:
    return float(np.clip(left - level, 0.0, seconds) @ rates)
