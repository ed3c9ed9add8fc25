"""What was used lately: it fades, and it bends the weights of the surplus."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest
from tests.builders import NOW, queue

from gpufleet.model.tenancy import Queue
from gpufleet.quota import Tree, fair_shares
from gpufleet.quota.fairshare import bent
from gpufleet.quota.lately import Held, used_lately
from gpufleet.units import GRAIN

DAY = timedelta(days=1)


def lately(name: str, share: float, **more: object) -> Queue:
    return queue(name, 0, used_lately=share, **more)


BENT = {
    "nobody used anything: halves": ([lately("a", 0), lately("b", 0)], 1, {"a": 8, "b": 8}),
    "who used a quarter more gets less": ([lately("a", 0.5), lately("b", 0.25)], 1, {"a": 6.4, "b": 9.6}),
    "who used it all gets nothing while the other wants all": ([lately("a", 1), lately("b", 0)], 1, {"a": 0, "b": 16}),
    "with k = 0 the past is forgotten": ([lately("a", 1), lately("b", 0)], 0, {"a": 8, "b": 8}),
    "both used everything: as they are": ([lately("a", 1), lately("b", 1)], 1, {"a": 8, "b": 8}),
    "what is deserved is not touched": ([queue("a", 6, used_lately=1.0), lately("b", 0)], 1, {"a": 6, "b": 10}),
    "a department's past is its teams'": (
        [queue("d"), queue("x", 0, parent="d", used_lately=0.5), lately("z", 0.25)],
        1,
        {"d": 6.4, "x": 6.4, "z": 9.6},
    ),
}


@pytest.mark.parametrize(("queues", "k", "shares"), BENT.values(), ids=BENT)
def test_surplus(queues: list[Queue], k: float, shares: dict[str, float]) -> None:
    leaves = {q.name: {"H100-80": 16 * GRAIN} for q in queues if q.name != "d"}
    found = fair_shares(Tree(queues), leaves, {"H100-80": 16 * GRAIN}, k)
    assert {name: found[name, "H100-80"] / GRAIN for name in shares} == shares


def test_what_the_bent_one_does_not_get_the_others_do_and_back_when_they_are_full() -> None:
    queues = [lately("a", 1), lately("b", 0)]
    wanted = {"a": {"H100-80": 16 * GRAIN}, "b": {"H100-80": 4 * GRAIN}}
    found = fair_shares(Tree(queues), wanted, {"H100-80": 16 * GRAIN}, 1)
    assert (found["a", "H100-80"] / GRAIN, found["b", "H100-80"] / GRAIN) == (12, 4)


def test_weights_bend_by_the_distance_from_the_part_that_was_due() -> None:
    half = Fraction(1, 2)
    found = bent({"a": Fraction(3), "b": Fraction(1)}, {"a": half, "b": half}, Fraction(2))
    assert found == {"a": Fraction(5, 4), "b": Fraction(0)}


def test_half_a_fleet_all_week_is_a_half_however_it_fades() -> None:
    assert used_lately([Held("a", Fraction(4), NOW - 30 * DAY)], Fraction(8), NOW) == {"a": 0.5}


def test_a_day_long_ago_counts_less_than_yesterday() -> None:
    old = used_lately([Held("a", Fraction(8), NOW - 6 * DAY, NOW - 5 * DAY)], Fraction(8), NOW, half_life=DAY)
    new = used_lately([Held("a", Fraction(8), NOW - DAY, NOW)], Fraction(8), NOW, half_life=DAY)
    assert old["a"] * 32 == pytest.approx(new["a"], rel=1e-3)
    assert new["a"] == pytest.approx(0.5 / (1 - 0.5**7), rel=1e-5)


def test_what_is_older_than_the_window_or_not_yet_does_not_count() -> None:
    held = [Held("a", Fraction(8), NOW - 9 * DAY, NOW - 8 * DAY), Held("b", Fraction(8), NOW + DAY)]
    assert used_lately(held, Fraction(8), NOW) == {}
    assert used_lately(held, Fraction(0), NOW) == {}
