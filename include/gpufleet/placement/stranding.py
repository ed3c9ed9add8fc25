"""GPUs expected to stay idle because their host runs out of cores or memory first.

R free GPUs will be asked for with D ~ Normal(m R, q R) of a resource; of what is short, every m strands one GPU
(docs/placement.md, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpufleet.model.hardware import MOST_GPUS
from gpufleet.placement.share_values import CARD

CAUTION: Final = 0.9
"""Of the mean cores (and memory) per GPU this part is expected. Between .8 and 1.0 openb moved by less than .04 points."""
STEPS, REACH = 512, 8
"""Grid of the loss function: steps per standard deviation, standard deviations to each side."""
HALF = STEPS * REACH
LAST: Final = 2 * HALF
TINY = 1e-9
MOST_MILLI: Final = MOST_GPUS * CARD

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Asks = Sequence[tuple[float, float, float]]
"""(count, GPUs, amount of the resource) for every kind of pod that asks for GPUs."""


class Stranding:
    """`factor` x the GPUs stranded by cores, plus those by memory."""

    def __init__(self, cpu: Asks, memory: Asks, factor: float) -> None:
        both = [_moments(cpu), _moments(memory)]
        milli = np.arange(MOST_MILLI + 1)
        sd = np.sqrt(np.array([[q] for _, q in both]) * milli / CARD) + TINY
        self._mean = np.array([[m] for m, _ in both]) / CARD
        self._scale = np.array([[factor / m if m else 0.0] for m, _ in both])
        self._steps = STEPS / sd
        """[resource, thousandths free]: steps of the table per unit of the resource."""
        self._sd = self._scale * sd
        self._numbers = tuple(
            (self._mean.item(i), self._scale.item(i), self._steps[i].item, self._sd[i].item) for i in (0, 1)
        )

    def of_node(self, cpu: float, memory: float, milli: int) -> float:
        """For one node with so many free thousandths of GPUs."""
        found, losses = 0.0, _loss_list()
        for x, (mean, scale, steps, sd) in ((cpu, self._numbers[0]), (memory, self._numbers[1])):
            over = x - mean * milli
            at = over * steps(milli) + HALF
            if at < LAST:  # else there is plenty
                loss = sd(milli) * losses[int(at)] if at > 0 else sd(milli) * losses[0]
                found += max(loss, -over * scale)
        return found

    def __call__(self, host: Floats, milli: Ints) -> Floats:
        """By row; `host` is free cores, then GiB. What is short on the average is short at least: it bounds the table."""
        over = host - self._mean * milli
        at = np.minimum(over * self._steps.take(milli, 1) + HALF, LAST).astype(np.int64)
        lost = np.maximum(self._sd.take(milli, 1) * _losses().take(at, mode="clip"), -over * self._scale)
        found: Floats = lost[0] + lost[1]
        return found


def _moments(asks: Asks) -> tuple[float, float]:
    """Expected amount per GPU, and its variance per GPU."""
    gpus = sum(c * g for c, g, _ in asks)
    if not gpus:
        return 0.0, 0.0
    mean = sum(c * x for c, _, x in asks) / gpus
    return CAUTION * mean, sum(c * (x - mean * g) ** 2 for c, g, x in asks) / gpus


@lru_cache(maxsize=1)
def _losses() -> Floats:
    """E[max(0, Z - z)] of a standard normal Z on the grid: pdf(z) - z (1 - cdf(z))."""
    grid = [i / STEPS - REACH for i in range(LAST + 1)]
    pdf = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in grid]
    return np.array([p - z * math.erfc(z / math.sqrt(2)) / 2 for z, p in zip(grid, pdf, strict=True)])


@lru_cache(maxsize=1)
def _loss_list() -> list[float]:
    """The same for one node at a time."""
    found: list[float] = _losses().tolist()
    return found
