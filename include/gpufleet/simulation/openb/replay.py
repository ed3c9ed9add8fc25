"""One seed's arrivals through one policy, and the curve that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpufleet.simulation.openb.cluster import Cluster
from gpufleet.simulation.openb.dice import Dice
from gpufleet.simulation.openb.engine import Engine
from gpufleet.simulation.openb.fgd import Fgd
from gpufleet.simulation.openb.moves import Mover
from gpufleet.simulation.openb.rules import BestFit, Chance, DotProduct, GpuClustering, GpuPacking, Rule
from gpufleet.simulation.openb.trace import Machine, Request, Run

Place = Callable[[Request], object]
"""Give the pod a place if there is one."""

OURS: Final = "gpufleet"
POLICIES: Final = ("random", "dotprod", "gpupacking", "bestfit", "gpuclustering", "fgd", OURS)


@dataclass(frozen=True, slots=True)
class Curve:
    """Allocation in percent of all GPUs, by whole percent of GPUs that had asked to get in."""

    seed: int
    allocated: dict[int, float]
    failed: int
    asked: int
    """Percent that had asked when the replay ended."""

    def at(self, share: float) -> float | None:
        """The figure at a share of arrivals (1.3 = 130 %), or at the last before it where one arrival leaps over it.

        None where the arrivals ended before.
        """
        wanted = round(100 * share)
        before = [column for column in self.allocated if column <= wanted]
        return self.allocated[max(before)] if before and self.asked >= wanted else None


def placer(
    policy: str,
    machines: Sequence[Machine],
    requests: Sequence[Request],
    run: Run,
    dice: Dice,
    *,
    known: bool,
    moves: float = 0.0,
) -> Place:
    """A fresh cluster under one policy.

    `known`: our engine is told the mix of the list, as FGD is; `moves`: the part of placed pods it may move.
    """
    if policy == OURS:
        engine = Engine(machines, requests if known else None)
        return Mover(engine, moves).place if moves else engine.place
    cluster = Cluster(machines, run.ties)
    return by_rule(cluster, _rule(policy, cluster, requests, dice))


def _rule(policy: str, cluster: Cluster, requests: Sequence[Request], dice: Dice) -> Rule:
    match policy:
        case "random":
            return Chance(dice)
        case "dotprod":
            return DotProduct()
        case "gpupacking":
            return GpuPacking()
        case "bestfit":
            return BestFit()
        case "gpuclustering":
            return GpuClustering(len(cluster.cpu))
        case _:
            return Fgd(cluster, requests)


def by_rule(cluster: Cluster, rule: Rule) -> Callable[[Request], tuple[int, tuple[int, ...]] | None]:
    """The highest score; of equal ones the lowest tie rank. What is placed is told as its node and its GPUs."""

    def place(request: Request) -> tuple[int, tuple[int, ...]] | None:
        fits = cluster.feasible(request)
        if not fits.any():
            return None
        scores = np.where(fits, rule.score(cluster, request, fits), -1)
        best = np.flatnonzero(scores == scores.max())
        node = int(best[cluster.ties[best].argmin()])
        gpus = tuple(rule.gpus(cluster, request, node)) if request.gpus else ()
        cluster.give(node, request, gpus)
        return node, gpus

    return place


def replay(place: Place, requests: Sequence[Request], run: Run, total: int, stop: float) -> Curve:
    """All arrivals until so much of `total` thousandths has asked; each column is the mean over its arrivals."""
    asked = given = failed = 0
    columns: dict[int, list[float]] = {}
    for index in run.order:
        request = requests[index]
        asked += request.total
        if round(100 * asked / total) > round(100 * stop):
            break
        if place(request):
            given += request.total
        else:
            failed += 1
        columns.setdefault(round(100 * asked / total), []).append(100 * given / total)
    curve = {share: sum(c) / len(c) for share, c in columns.items()}
    return Curve(run.seed, curve, failed, round(100 * asked / total))
