"""The fluid bound: what a linear program says it is, and never below what any policy reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from gpufleet.simulation.fleet.bound import fluid_bound
from gpufleet.simulation.fleet.spec import Fleet, Spec, Training
from gpufleet.simulation.fleet.study import POLICIES, study
from gpufleet.simulation.fleet.workload import Work

HOUR = 3600.0
GPUS = 8
PAIRS = ((0.5 * HOUR, 1), (2 * HOUR, 3), (9 * HOUR, 2), (4 * HOUR, 8), (30 * HOUR, 8), (7 * HOUR, 4))
SMALL = Spec(
    fleet=Fleet(nodes=4, per_leaf=2), jobs=40, pairs=PAIRS, training=Training(tail=((16, 0.4), (32, 0.2)), pod=8)
)

KNOWN = {
    "one job alone": ([(0, 2, 4)], 8.0),
    "a job that cannot end in time counts for nothing": ([(0, 11, 8)], 0.0),
    "no more than there is": ([(0, 10, 8), (0, 10, 8)], 80.0),
    "nobody runs faster than on all its GPUs": ([(0, 5, 1), (8, 2, 8)], 21.0),
    "the longest goes first, or its tail would keep one GPU busy": ([(0, 10, 4), (0, 5, 8)], 80.0),
}


def works(rows: Sequence[tuple[float, float, int]]) -> list[Work]:
    """(arrival, hours, GPUs) in order of arrival."""
    return [Work(f"w{i}", at * HOUR, hours * HOUR, gpus) for i, (at, hours, gpus) in enumerate(sorted(rows))]


@pytest.mark.parametrize(("rows", "gpu_hours"), KNOWN.values(), ids=KNOWN)
def test_what_a_fluid_could_do(rows: list[tuple[float, float, int]], gpu_hours: float) -> None:
    assert fluid_bound(works(rows), GPUS, 10 * HOUR) == pytest.approx(gpu_hours * HOUR)


def by_linear_program(rows: Sequence[Work], deadline: float) -> float:
    """The most work in intervals between arrivals: each job at most at its rate, all together at most the fleet."""
    rows = [w for w in rows if w.arrives + w.seconds <= deadline]
    cuts = sorted({w.arrives for w in rows} | {deadline})
    lengths = np.diff(cuts)
    cells = [(j, i) for j, w in enumerate(rows) for i in range(len(lengths)) if cuts[i] >= w.arrives]
    if not cells:
        return 0.0
    at_most = [rows[j].gpus * lengths[i] for j, i in cells]
    of_job = np.array([[float(k == j) for k, _ in cells] for j in range(len(rows))])
    of_time = np.array([[float(m == i) for _, m in cells] for i in range(len(lengths))])
    most = [*(w.seconds * w.gpus for w in rows), *(GPUS * lengths)]
    found = linprog(-np.ones(len(cells)), np.vstack((of_job, of_time)), most, bounds=[(0, b) for b in at_most])
    return float(-found.fun)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12), st.integers(1, GPUS)), min_size=1, max_size=9))
def test_it_is_the_optimum_of_the_linear_program(rows: list[tuple[int, int, int]]) -> None:
    found = works(rows)
    assert fluid_bound(found, GPUS, 24 * HOUR) == pytest.approx(by_linear_program(found, 24 * HOUR), abs=1e-3)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 10_000), st.sampled_from((0.6, 1.0, 1.5)), st.sampled_from((1, 8)), st.sampled_from(POLICIES))
def test_no_policy_finishes_more(seed: int, load: float, pod: int, policy: str) -> None:
    spec = replace(SMALL, load=load, training=replace(SMALL.training, pod=pod), release=1200.0)
    (found,) = study(spec, policy, [seed], Random)
    assert found.effective_throughput <= found.bound + 1e-9 <= 1 + 2e-9
