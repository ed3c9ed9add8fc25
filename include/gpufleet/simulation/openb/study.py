"""A policy over several seeds of one workload: golden arrivals where given, else our own shuffles."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpufleet.errors import Invalid
from gpufleet.simulation.openb.dice import Seeded
from gpufleet.simulation.openb.replay import OURS, POLICIES, Curve, placer, replay
from gpufleet.simulation.openb.trace import CARD, Machine, Request, Run

FIRST_SEED = 42
MARKS = (0.5, 1.0, 1.3)
"""Shares of arrivals at which allocation is reported."""


@dataclass(frozen=True, slots=True)
class Study:
    """What came out: one curve per seed."""

    policy: str
    curves: tuple[Curve, ...]
    marks: tuple[float, ...]

    def figures(self, mark: float) -> list[float]:
        """Allocation percent at one mark, by seed."""
        return [found for curve in self.curves if (found := curve.at(mark)) is not None]

    def mean(self, mark: float) -> float:
        return statistics.fmean(self.figures(mark))

    def sd(self, mark: float) -> float:
        """Sample standard deviation; 0 for one seed."""
        figures = self.figures(mark)
        return statistics.stdev(figures) if len(figures) > 1 else 0.0

    def curve(self) -> dict[int, float]:
        """Mean allocation percent by whole percent of arrivals, as far as every seed came."""
        shares = range(1, min(max(c.allocated, default=0) for c in self.curves) + 1)
        return {share: self.mean(share / 100) for share in shares if len(self.figures(share / 100)) == len(self.curves)}


def study(
    policy: str,
    machines: Sequence[Machine],
    requests: Sequence[Request],
    runs: Sequence[Run],
    seeded: Seeded,
    *,
    stop: float = 1.3,
    moves: float = 0.0,
    known: bool = True,
    progress: Callable[[Curve], None] = lambda _: None,
) -> Study:
    """Replay every run. Raises Invalid for what cannot be simulated."""
    if policy not in POLICIES:
        raise Invalid(f"policy '{policy}' is not known; known are {', '.join(POLICIES)}.")
    if moves and policy != OURS:
        raise Invalid(f"--moves is for policy {OURS}; {policy} as published moves nothing.")
    if not machines or not any(r.total for r in requests):
        raise Invalid("there is nothing to place: the node list or the pod list has no GPUs.")
    total, curves = CARD * sum(m.gpus for m in machines), []
    for run in runs:
        place = placer(policy, machines, requests, run, seeded(run.seed), known=known, moves=moves)
        curves.append(replay(place, requests, run, total, stop))
        progress(curves[-1])
    reached = tuple(m for m in (*MARKS, stop) if m <= stop and all(c.at(m) is not None for c in curves))
    return Study(policy, tuple(curves), tuple(sorted(set(reached))))


def own_runs(
    machines: Sequence[Machine], requests: Sequence[Request], seeds: int, stop: float, seeded: Seeded
) -> list[Run]:
    """Seeded arrivals without golden files: the list shuffled, then pods drawn from it until `stop` has asked.

    Node ties are broken by a seeded permutation, as the published experiments do.
    """
    total, found = CARD * sum(m.gpus for m in machines), []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        rng = seeded(seed)
        order = rng.sample(range(len(requests)), len(requests))
        asked = sum(r.total for r in requests)
        while asked < (stop + 0.01) * total:
            order.append(rng.randrange(len(requests)))
            asked += requests[order[-1]].total
        found.append(Run(seed, tuple(order), tuple(rng.sample(range(len(machines)), len(machines)))))
    return found
