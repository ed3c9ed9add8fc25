"""The range file of the benchmarks: it speaks of figures that are measured, and a figure outside is named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml
from benchmarks import speed
from benchmarks.__main__ import RANGES, outside

BOUNDS = yaml.safe_load(RANGES.read_text())


def measured() -> set[str]:
    """Names that `measure` yields, read from its source: the figures themselves take a minute."""
    tree = ast.parse(Path(speed.__file__).read_text())
    yields = [n.value for n in ast.walk(tree) if isinstance(n, ast.Yield) and isinstance(n.value, ast.Tuple)]
    return {t.elts[0].value for t in yields if isinstance(t.elts[0], ast.Constant)}


def figures(**changed: float) -> dict[str, float]:
    """All inside: nothing takes longer than nothing."""
    return {**dict.fromkeys(measured(), 0.001), "fixed_work": 1.0, **changed}


def test_every_bound_is_of_a_figure_that_is_measured_and_none_goes_unbounded() -> None:
    compared = {part for pair in BOUNDS["ratio"] for part in pair.split(" / ")}
    assert set(BOUNDS["most"]) | compared | {"fixed_work"} == measured()


def test_figures_inside_their_ranges_say_nothing() -> None:
    assert outside(figures(), 100, {**BOUNDS, "most": dict.fromkeys(BOUNDS["most"], 1)}) == []


@pytest.mark.parametrize("name", BOUNDS["most"])
def test_a_figure_above_its_bound_is_named(name: str) -> None:
    assert any(name in sentence for sentence in outside(figures(**{name: 1e9}), 100, BOUNDS))


def test_a_ratio_and_the_memory_are_bounded_too() -> None:
    wrong = outside(figures(decision_9704_nodes=0.002), 10_000, {**BOUNDS, "most": {}})
    assert "is 2.00" in wrong[0] and "10000 MiB" in wrong[1]
