"""The potential of a node: what its free room is worth for the demand to come."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import node, pods

from gpufleet.placement.mix import FEWEST, PRIOR, Ask, Mix, expecting, mix_of
from gpufleet.placement.potential import FRAGMENT, SOLD, STRANDED, Potential
from gpufleet.placement.share_values import share_values
from gpufleet.placement.stranding import CAUTION

ASKS = (
    (Ask(1000, 12.0, 48.0), 40.0),
    (Ask(2000, 24.0, 96.0), 5.0),
    (Ask(8000, 88.0, 512.0), 5.0),
    (Ask(460, 6.0, 12.0, is_share=True), 20.0),
    (Ask(810, 10.0, 30.0, is_share=True), 15.0),
    (Ask(150, 2.0, 4.0, is_share=True), 5.0),
    (Ask(0, 8.0, 16.0), 10.0),
)
MIX = Mix(tuple((ask, 10 * count) for ask, count in ASKS))


def slow_phi(free: list[int], cpu: float, memory: float) -> float:
    """The definition, word by word (docs/placement.md, section 1), without tables."""
    value = share_values(MIX.shares)
    sold = sum(value[milli] for milli in free)
    total = sum(count for _, count in ASKS)
    fragment = sum(count / total * _lost(ask, free, cpu, memory) for ask, count in ASKS if ask.milli)
    stranded = _stranded("cpu", cpu, sum(free) / 1000) + _stranded("memory_gib", memory, sum(free) / 1000)
    return -SOLD * sold + STRANDED * stranded + FRAGMENT * fragment


def _lost(ask: Ask, free: list[int], cpu: float, memory: float) -> float:
    """GPUs free that this kind of pod cannot use: all when it cannot be hosted, else the pieces too small for it."""
    need, cards = (ask.milli, 1) if ask.is_share else (1000, ask.milli // 1000)
    if ask.cpu > cpu or ask.memory_gib > memory or sum(1 for f in free if f >= need) < cards:
        return sum(free) / 1000
    return sum(f for f in free if f < need) / 1000


def _stranded(resource: str, x: float, gpus: float) -> float:
    asks = [(count, ask.milli / 1000, getattr(ask, resource)) for ask, count in ASKS if ask.milli]
    all_gpus = sum(c * g for c, g, _ in asks)
    mean = sum(c * a for c, _, a in asks) / all_gpus
    spread = sum(c * (a - mean * g) ** 2 for c, g, a in asks) / all_gpus
    if not gpus:
        return 0.0
    m, sd = CAUTION * mean, math.sqrt(spread * gpus)
    z = (x - m * gpus) / sd
    return sd * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2) / m


nodes = st.tuples(
    st.lists(st.sampled_from((0, 40, 190, 350, 540, 810, 850, 1000)), min_size=1, max_size=8),
    st.sampled_from((0.0, 2.0, 6.5, 30.0, 96.0)),
    st.sampled_from((0.0, 10.0, 48.0, 700.0)),
)


@settings(deadline=None)
@given(nodes)
def test_the_tables_say_what_the_definition_says(node: tuple[list[int], float, float]) -> None:
    assert Potential(MIX).phi(*node) == pytest.approx(slow_phi(*node), abs=2e-3)


@settings(deadline=None)
@given(st.lists(nodes, min_size=1, max_size=5), st.sampled_from([ask for ask, _ in ASKS]))
def test_many_nodes_at_once_say_what_each_would_say(rows: list[tuple[list[int], float, float]], kind: Ask) -> None:
    potential = Potential(MIX)
    free = np.array([f + [0] * (8 - len(f)) for f, _, _ in rows])
    cpu, memory = np.array([c for _, c, _ in rows]), np.array([m for *_, m in rows])
    host = np.array([cpu - kind.cpu, memory - kind.memory_gib])
    full = (free == 1000).sum(1)
    if kind.is_share:
        left = np.maximum(free - kind.milli, 0)
        told = potential.after_share(free, left, host, full, free.sum(1) - kind.milli)
    else:
        told = potential.after_whole(kind.milli // 1000, free, host, full)
    for row, cards in enumerate(free.tolist()):
        left = cpu[row] - kind.cpu, memory[row] - kind.memory_gib
        if kind.is_share:
            for card, milli in enumerate(cards):
                if milli >= kind.milli:
                    after = [*cards[:card], milli - kind.milli, *cards[card + 1 :]]
                    assert told[row, card] == pytest.approx(potential.phi(after, *left), abs=1e-6)
                    assert potential.share_costs(kind.milli, cards, *left)[cards[card]] == pytest.approx(
                        told[row, card]
                    )
        elif cards.count(1000) >= kind.milli // 1000:
            after = list(cards)
            for _ in range(kind.milli // 1000):
                after[after.index(1000)] = 0
            assert told[row] == pytest.approx(potential.phi(after, *left), abs=1e-6)


def test_the_hole_beside_a_share_that_costs_a_whole_card_is_worth_nothing() -> None:
    values = share_values({810: 150.0, 460: 200.0, 150: 50.0})
    assert values[190] == 0 and values[540] == pytest.approx(0.5) and values[810] == pytest.approx(1)


def test_a_hole_is_worth_the_best_set_of_shares_it_holds() -> None:
    values = share_values({470: 90.0, 310: 90.0, 810: 10.0})
    assert values[780] == pytest.approx(values[470] + values[310])
    assert values[780] > max(values[470], values[310])


def test_one_size_is_worth_its_part_of_a_card() -> None:
    assert share_values({300: 7.0})[300] == pytest.approx(1 / 3)


def test_no_set_of_shares_on_one_card_is_worth_more_than_the_card() -> None:
    sizes = {50: 30.0, 110: 10.0, 160: 20.0, 220: 40.0, 320: 20.0, 470: 90.0, 550: 10.0, 650: 30.0, 810: 120.0}
    values = share_values(sizes)
    best = [0.0] * 1001
    for room in range(1001):
        best[room] = max([best[room - s] + values[s] for s in sizes if s <= room], default=0.0)
    assert best[1000] <= 1 + 1e-5 and all(a <= b for a, b in pairwise(values))


def test_few_pods_tell_nothing_and_the_prior_stands() -> None:
    assert mix_of([pods(FEWEST - 1, gpus=1)]) is PRIOR
    assert mix_of([pods(FEWEST, gpus=1)]) == Mix(((Ask(1000), float(FEWEST)),))


def test_slices_are_weighed_on_their_own_grid() -> None:
    assert mix_of([pods(100, profile="1g.10gb")]) is PRIOR


def test_a_few_shares_tell_no_mix() -> None:
    assert share_values({470: 5.0, 310: 4.0})[999] == 0


def test_where_hosts_differ_somebody_is_expected_to_want_a_whole_one_of_each_size() -> None:
    hosts = [node("small", cpu=96.0, memory_mib=400_000), node("large", cpu=128.0, memory_mib=800_000)]
    learnt = Mix(((Ask(1000, 10.0, 40.0), 80.0),))
    found = dict(expecting(learnt, [*hosts, node("tiny", gpus=2, cpu=16.0, memory_mib=64_000)]).counts)
    assert found.pop(Ask(1000, 10.0, 40.0)) == 80
    assert {ask.cpu: count for ask, count in found.items()} == {96.0: 4.0, 128.0: 4.0}
    potential = Potential(expecting(learnt, hosts))
    one_gpu = [0] + [1000] * 7

    def rise(cpu: float, memory: float) -> float:
        return potential.phi(one_gpu, cpu - 10, memory - 40) - potential.phi([1000] * 8, cpu, memory)

    assert rise(96.0, 390.625) < rise(128.0, 781.25), "the large host is kept for who needs all of it"


def test_equal_hosts_and_hosts_that_do_not_say_what_they_have_change_nothing() -> None:
    learnt = Mix(((Ask(1000, 10.0, 40.0), 80.0),))
    alike = [node(f"n{i}", cpu=96.0, memory_mib=400_000) for i in range(2)]
    assert expecting(learnt, alike) == expecting(learnt, [node("n0"), node("n1", gpus=4)]) == learnt
