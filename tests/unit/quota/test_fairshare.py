"""Fair share: deserved first, the surplus by weight, level by level."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.builders import queue

from gpufleet.model.tenancy import Queue
from gpufleet.quota import Tree, fair_shares
from gpufleet.quota.fairshare import pour
from gpufleet.units import GRAIN

CASES = {
    "equal queues halve the fleet": ([queue("a", 0), queue("b", 0)], {"a": 8, "b": 8}, {"a": 4, "b": 4}),
    "deserved comes before weight": ([queue("a", 6), queue("b", 0)], {"a": 8, "b": 8}, {"a": 7, "b": 1}),
    "what one does not want the other gets": ([queue("a", 8), queue("b", 0)], {"a": 2, "b": 9}, {"a": 2, "b": 6}),
    "weights divide the surplus": ([queue("a", 0, weight=3), queue("b", 0)], {"a": 8, "b": 8}, {"a": 6, "b": 2}),
    "weight nothing gets only what is deserved": (
        [queue("a", 1, weight=0), queue("b", 0)],
        {"a": 8, "b": 8},
        {"a": 1, "b": 7},
    ),
    "too much deserved is scaled down pro rata": (
        [queue("a", 12), queue("b", 4)],
        {"a": 12, "b": 12},
        {"a": 6, "b": 2},
    ),
    "a limit caps a share": ([queue("a", 0, limit=1), queue("b", 0)], {"a": 8, "b": 8}, {"a": 1, "b": 7}),
    "departments divide first": (
        [queue("d", 0), queue("e", 0), queue("x", 0, parent="d"), queue("y", 0, parent="d"), queue("z", 0, parent="e")],
        {"x": 8, "y": 8, "z": 8},
        {"x": 2, "y": 2, "z": 4, "d": 4, "e": 4},
    ),
    "a parent without keys deserves what its children do": (
        [queue("d"), queue("x", 6, parent="d"), queue("z", 0)],
        {"x": 6, "z": 8},
        {"x": 6, "z": 2},
    ),
}


@pytest.mark.parametrize(("queues", "wanted", "shares"), CASES.values(), ids=CASES)
def test_shares(queues: list[Queue], wanted: dict[str, int], shares: dict[str, int]) -> None:
    asked = {name: {"H100-80": gpus * GRAIN} for name, gpus in wanted.items()}
    found = fair_shares(Tree(queues), asked, {"H100-80": 8 * GRAIN})
    assert {name: found[name, "H100-80"] / GRAIN for name in shares} == shares


def test_nothing_is_lost_in_pouring() -> None:
    vessels = {name: (Fraction(w), Fraction(5)) for name, w in (("a", 1), ("b", 2), ("c", 4))}
    assert sum(pour(vessels, Fraction(7)).values()) == 7
    assert sum(pour(vessels, Fraction(70)).values()) == 15
