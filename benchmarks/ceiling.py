"""How much any rule could give out on openb that accepts what ours accepts until its first refusal: a linear program.

A relaxation, so nothing that accepts those pods can be above it, with moves or without: all GPUs are one pool, cores,
memory and models are left out, pods and patterns may be fractions. What remains is cutting stock: a GPU carries a set
of shares that sums to at most one GPU. Patterns are found by column generation, each an unbounded knapsack.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import linprog

from gpufleet.errors import Invalid
from gpufleet.simulation.openb.engine import Engine
from gpufleet.simulation.openb.trace import CARD, Machine, Request, Run, read_machines, read_requests, read_runs

STOP: Final = 1.3
ROUNDING: Final = 1e-6
"""A pattern that improves by less than this is none (in thousandths of a GPU)."""
DEAR: Final = 1e6
"""What a GPU too many costs, in thousandths of a GPU: no set of pods is worth it."""

Sizes = Mapping[int, int]
"""How many pods of each size; a pod of several whole GPUs counts as so many of size 1000."""


def ceiling(total: int, forced: Sizes, offered: Sizes) -> float:
    """The most that can be given out, in percent of `total` GPUs, with all of `forced` in and no more than `offered`.

    Raises Invalid where not even what is forced fits.
    """
    sizes = sorted(offered)
    patterns = [tuple(CARD // size if i == j else 0 for i in range(len(sizes))) for j, size in enumerate(sizes)]
    least, most = [forced.get(s, 0) for s in sizes], [offered[s] for s in sizes]
    while True:
        value, prices, card = _master(total, sizes, patterns, least, most)
        worth, pattern = knapsack(sizes, prices)
        if worth <= card + ROUNDING:
            if value < sum(size * count for size, count in zip(sizes, least, strict=True)) - ROUNDING:
                raise Invalid("what is forced does not fit: no rule can have accepted it.")
            return 100 * value / (CARD * total)
        patterns.append(pattern)


def _master(
    total: int, sizes: Sequence[int], patterns: Sequence[tuple[int, ...]], least: Sequence[int], most: Sequence[int]
) -> tuple[float, list[float], float]:
    """Value, price of one more piece of each size, price of one more GPU, with these patterns alone.

    Variables: pods taken of each size, GPUs cut by each pattern, GPUs too many, which cost more than anything: with the
    first patterns what is forced may not fit. Pieces cut are no fewer than pods taken.
    """
    count = len(sizes)
    gain = np.concatenate([-np.array(sizes, dtype=float), np.zeros(len(patterns)), [DEAR]])
    cut = np.hstack([np.eye(count), -np.array(patterns, dtype=float).T, np.zeros((count, 1))])
    cards = np.concatenate([np.zeros(count), np.ones(len(patterns)), [-1.0]])
    bounds = [*zip(least, most, strict=True), *((0, None) for _ in (*patterns, DEAR))]
    limits = np.concatenate([np.zeros(len(sizes)), [total]])
    found = linprog(gain, A_ub=np.vstack([cut, cards]), b_ub=limits, bounds=bounds, method="highs")
    if found.status != 0:
        raise Invalid(f"the ceiling's program has no answer: {found.message}")
    prices = -found.ineqlin.marginals
    return -float(found.fun), prices[:-1].tolist(), float(prices[-1])


def knapsack(sizes: Sequence[int], prices: Sequence[float]) -> tuple[float, tuple[int, ...]]:
    """The dearest set of pieces that fits on one GPU, and how many of each size it has."""
    step = math.gcd(CARD, *sizes)
    best, last = [0.0] * (CARD // step + 1), [-1] * (CARD // step + 1)
    for room in range(1, len(best)):
        best[room], last[room] = best[room - 1], -1
        for i, size in enumerate(sizes):
            if size <= room * step and best[room - size // step] + prices[i] > best[room]:
                best[room], last[room] = best[room - size // step] + prices[i], i
    counts, room = [0] * len(sizes), len(best) - 1
    while room > 0:
        if (i := last[room]) >= 0:
            counts[i] += 1
        room -= sizes[i] // step if i >= 0 else 1
    return best[-1], tuple(counts)


def of_run(machines: Sequence[Machine], requests: Sequence[Request], run: Run) -> tuple[float, float]:
    """The ceiling of one seed's arrivals, and the percent of arrivals at which ours first refuses a pod of up to a GPU."""
    total = sum(m.gpus for m in machines)
    arrivals = list(_until(requests, run, CARD * total))
    refused = _first_refusal(machines, requests, arrivals)
    forced = _sizes(r for r in arrivals[:refused] if r.gpus == 1)
    share = 100 * sum(r.total for r in arrivals[: refused + 1]) / (CARD * total)
    return ceiling(total, forced, _sizes(r for r in arrivals if r.gpus)), share


def _until(requests: Sequence[Request], run: Run, total: int) -> Iterator[Request]:
    """Arrivals until 130 % have asked."""
    asked = 0
    for index in run.order:
        asked += requests[index].total
        if round(100 * asked / total) > round(100 * STOP):
            return
        yield requests[index]


def _first_refusal(machines: Sequence[Machine], requests: Sequence[Request], arrivals: Sequence[Request]) -> int:
    """Position of the first pod asking at most one GPU that our engine has no place for; their number if none."""
    engine = Engine(machines, requests)
    return next((i for i, r in enumerate(arrivals) if engine.place(r) is None and r.gpus <= 1), len(arrivals))


def _sizes(requests: Iterator[Request]) -> Sizes:
    found: Counter[int] = Counter()
    for request in requests:
        found[request.milli] += request.gpus
    return found


def document(pods: Path, nodes: Path, order: Path, ties: Path, seeds: int) -> dict[str, Any]:
    """Ceilings by seed, and their mean."""
    machines, requests = read_machines(nodes), read_requests(pods)
    runs = []
    for run in read_runs(order, ties, seeds, len(requests), len(machines)):
        top, refusal = of_run(machines, requests, run)
        runs.append({"seed": run.seed, "ceiling": round(top, 4), "first_refusal": round(refusal, 2)})
    return {"mean": round(statistics.fmean(r["ceiling"] for r in runs), 4), "runs": runs}
