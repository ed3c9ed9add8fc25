"""The ceiling of openb: right where it can be counted by hand, and never below what any rule of ours gives out."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from benchmarks.ceiling import ceiling, knapsack, of_run
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.errors import Invalid
from gpufleet.simulation.openb.replay import POLICIES
from gpufleet.simulation.openb.study import study
from gpufleet.simulation.openb.trace import Machine, Request, Run


def test_two_halves_fill_a_gpu_and_an_810_wastes_the_rest() -> None:
    assert ceiling(1, {}, {500: 2}) == pytest.approx(100)
    assert ceiling(2, {810: 2}, {810: 2, 500: 2}) == pytest.approx(81)
    assert ceiling(2, {810: 2}, {810: 2, 190: 1}) == pytest.approx((810 * 2 + 190) / 20)


def test_what_need_not_be_taken_makes_room_for_better() -> None:
    assert ceiling(1, {}, {810: 1, 500: 2}) == pytest.approx(100)
    assert ceiling(1, {810: 1}, {810: 1, 500: 2}) == pytest.approx(81)


def test_patterns_of_several_sizes_are_found() -> None:
    """No GPU is full with one size alone: 600 and 400 must meet, and three of 300 with a 100."""
    assert ceiling(2, {}, {600: 1, 400: 1, 300: 3, 100: 1}) == pytest.approx(100)


def test_what_cannot_have_been_accepted_is_refused() -> None:
    with pytest.raises(Invalid, match="does not fit"):
        ceiling(1, {1000: 2}, {1000: 2})


@given(st.dictionaries(st.sampled_from([50, 110, 190, 300, 470, 550, 810, 1000]), st.floats(0, 9), min_size=1))
def test_the_dearest_pattern_fits_and_is_worth_what_it_says(prices: dict[int, float]) -> None:
    sizes = sorted(prices)
    worth, counts = knapsack(sizes, [prices[s] for s in sizes])
    assert sum(s * n for s, n in zip(sizes, counts, strict=True)) <= 1000
    assert worth == pytest.approx(sum(prices[s] * n for s, n in zip(sizes, counts, strict=True)))
    assert worth >= max(1000 // s * prices[s] for s in sizes) - 1e-9


MACHINES = [Machine(f"n{i}", 64_000, 262_144, 2, "T4") for i in range(3)]
PODS = st.lists(
    st.builds(
        lambda milli, gpus: Request(1000, 1024, gpus if milli == 1000 else 1, milli),
        st.sampled_from([190, 300, 470, 650, 810, 1000]),
        st.integers(1, 2),
    ),
    min_size=8,
    max_size=30,
)


@settings(deadline=None, max_examples=25)
@given(PODS, st.integers(0, 9))
def test_ours_is_never_above_its_ceiling(pods: list[Request], seed: int) -> None:
    order = Random(seed).sample(range(len(pods)), len(pods))
    run = Run(seed, tuple(order), tuple(range(len(MACHINES))))
    (curve,) = study(POLICIES[-1], MACHINES, pods, [run], Random).curves
    top, _ = of_run(MACHINES, pods, run)
    assert max(curve.allocated.values()) <= top + 1e-6
    sizes = Counter(p.milli for p in pods for _ in range(p.gpus))
    assert top <= min(100, sum(s * n for s, n in sizes.items()) / 60) + 1e-6
