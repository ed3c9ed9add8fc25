"""Training and services on one fleet: what a replica asks for, what is counted, and what no scheduler could exceed."""

from __future__ import annotations

from dataclasses import astuple, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.model.catalogue import gpu_model
from gpufleet.simulation.fleet.fairness import Fairness, water_fill
from gpufleet.simulation.fleet.kube import KubeDefault
from gpufleet.simulation.fleet.ours import Ours
from gpufleet.simulation.fleet.progress import Progress
from gpufleet.simulation.fleet.serving import Service, fewest_cards, layouts, services, sized, smallest
from gpufleet.simulation.fleet.shares import Books, bounds
from gpufleet.simulation.fleet.spec import Fleet, Serving, Spec, Training
from gpufleet.simulation.fleet.study import THROUGHPUT, study
from gpufleet.simulation.fleet.workload import Work, workload
from gpufleet.simulation.fleet.world import World

HOUR = 3600.0
A100 = gpu_model("A100-80")
SMALL = Spec(
    fleet=Fleet(nodes=2, model="A100-80", gpus=4, per_leaf=2),
    jobs=12,
    training_share=0.5,
    training=Training(tail=()),
    pairs=((2 * HOUR, 1), (3 * HOUR, 2), (5 * HOUR, 4)),
    serving=Serving(needs=((0.6, 0.08, 0.1), (0.4, 0.39, 0.28)), life=HOUR),
)
NEEDS = st.tuples(st.floats(0.01, 0.85), st.floats(0.01, 0.9))

# ---------------------------------------------------------------- what a replica asks for


@given(NEEDS, st.floats(0.5, 1.0), st.floats(0.0, 0.12))
def test_a_sized_replica_fills_its_slice_and_never_more(need: tuple[float, float], fill: float, margin: float) -> None:
    serving, before = Serving(fill=fill, margin=margin), Service(1.0, *need)
    slice_, after = smallest(before, margin, A100), sized(before, serving, A100)
    memory = after.memory * (1 + margin) / (slice_.memory_mib / A100.memory_mib)
    compute = after.compute / (fill * slice_.compute / A100.compute_slices)
    assert max(memory, compute) == pytest.approx(1)


@settings(max_examples=20, deadline=None)
@given(st.lists(NEEDS, min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_a_margin_as_wide_as_the_error_kills_nobody(needs: list[tuple[float, float]], seed: int, grown: bool) -> None:
    serving = Serving(needs=tuple((1.0, m, c) for m, c in needs), life=HOUR, sized=grown, error=0.06)
    works = workload(replace(SMALL, serving=serving), Random(seed))
    for work in (w for w in works if w.is_replica):
        kind = services(replace(SMALL, serving=serving))[work.service]
        slice_ = smallest(kind, serving.margin, A100)
        assert work.uses * A100.memory_mib <= slice_.memory_mib + 1e-6


# ---------------------------------------------------------------- how many cards they take


def test_the_layouts_of_a_card_are_the_published_ones() -> None:
    assert len(layouts(A100)) == 38  # maximal multisets of the 7/8 family, 1g.20gb included
    assert ("3g.40gb", "4g.40gb") in layouts(A100) and len(layouts(gpu_model("A30-24"))) == 4


CARDS = {
    "seven small ones": ({Service(1, 0.1, 0.14): 7}, 1.0),
    "three halves": ({Service(1, 0.4, 0.4): 3}, 1.5),
    "four of a quarter of the memory": ({Service(1, 0.2, 0.1): 4}, 1.0),
    "a half and four small ones": ({Service(1, 0.4, 0.4): 1, Service(1, 0.1, 0.14): 4}, 1.0),
    "nobody": ({}, 0.0),
}


@pytest.mark.parametrize(("replicas", "cards"), CARDS.values(), ids=CARDS)
def test_the_fewest_cards(replicas: dict[Service, float], cards: float) -> None:
    assert fewest_cards(replicas, 0.0, A100) == pytest.approx(cards)


@pytest.mark.parametrize(("share", "load"), [(0.3, 0.26), (0.5, 0.36), (0.7, 0.50)])
def test_an_ideal_scheduler_of_whole_cards_serves_as_much_as_published(share: float, load: float) -> None:
    spec = replace(SMALL, training_share=share, serving=Serving(needs=((1.0, 0.27, 0.2),), sized=False))
    assert bounds(spec, Books(), 1.0).ideal_integer_load == pytest.approx(load, abs=0.005)


# ---------------------------------------------------------------- what is counted


@pytest.mark.parametrize("policy", ["gpufleet", "kube-default"])
@pytest.mark.parametrize("warmup", [0.0, 2 * HOUR])
def test_the_shares_are_all_of_the_time_and_below_the_bound(policy: str, warmup: float) -> None:
    for found in study(replace(SMALL, warmup=warmup), policy, range(1, 4), Random):
        assert sum(astuple(found.shares)) == pytest.approx(1)
        assert min(astuple(found.shares)) >= -1e-9
        assert 0 < found.useful_utilisation <= found.bounds.useful + 1e-9


def test_the_same_seed_tells_the_same_of_a_mixed_fleet() -> None:
    first, again = (study(SMALL, "gpufleet", [5], Random) for _ in range(2))
    assert first == again


def told(spec: Spec, works: list[Work], policy: str = "gpufleet") -> World:
    """The world after these works."""
    world = World(spec)
    world.run(works, Ours(world, THROUGHPUT) if policy == "gpufleet" else KubeDefault(world, Random(1)))
    return world


def replica(name: str, at: float, life: float = HOUR, part: float = 0.1) -> Work:
    return Work(name, at, life, 0, memory=part, uses=part, compute=part)


ONE = replace(SMALL, fleet=Fleet(nodes=1, model="A100-80", gpus=1, per_leaf=1))
END = Work("z", 9 * HOUR, 1.0, 1)


def test_a_replica_takes_the_card_of_training_and_starts_when_that_has_gone_and_the_card_is_cut() -> None:
    world = told(ONE, [Work("t", 0.0, 5 * HOUR, 1, interval=600.0), replica("i", HOUR), END])
    assert world.jobs["i"].first_start == HOUR + ONE.speed.evict + ONE.speed.convert and world.counts.evictions == 1


def test_a_replica_on_a_cut_card_with_room_starts_at_once() -> None:
    world = told(ONE, [replica("i", 0.0), replica("j", 100.0), END])
    assert world.jobs["j"].first_start == 100.0


def test_a_replica_lives_as_long_wherever_it_is_moved() -> None:
    job = Progress(replica("i", 0.0, life=HOUR))
    job.start(0.0, (0,), SMALL)
    assert job.stop(1800.0, planned=True) == 0
    job.start(1800.0, (1,), SMALL, delay=60.0)
    assert job.finish_at() == 1800.0 + 60.0 + 1800.0


def test_what_came_before_the_end_of_the_warm_up_is_not_counted() -> None:
    world = told(replace(ONE, warmup=8 * HOUR), [Work("t", 0.0, 4 * HOUR, 1), END])
    assert world.books.training == 0 == world.books.held


def test_pods_move_no_more_than_the_budget() -> None:
    crowded = replace(SMALL, jobs=40, serving=replace(SMALL.serving, life=2 * HOUR))
    free, few = (study(replace(crowded, moves=part), "gpufleet", [1], Random)[0] for part in (None, 0.02))
    assert free.moves > 0.02 * free.starts  # else the budget would not bind
    assert few.moves <= 0.02 * few.starts


def test_without_a_priority_replicas_wait_their_turn() -> None:
    works = [Work("t", 0.0, HOUR, 1), Work("u", 1.0, HOUR, 1), replica("i", 2.0), END]
    first, turn = (
        told(replace(ONE, serving=replace(ONE.serving, first=first)), works, "kube-default") for first in (True, False)
    )
    assert first.jobs["i"].first_start == HOUR and turn.jobs["i"].first_start == 2 * HOUR


# ---------------------------------------------------------------- teams

DUE = {
    "who asks for what it deserves gets it": ([4, 4], [4, 9], 8, [4, 4]),
    "what one leaves the others share": ([4, 4, 0], [1, 9, 9], 9, [1, 6, 2]),
    "nobody gets more than it asks for": ([4, 4], [1, 2], 8, [1, 2]),
    "more deserved than there is": ([8, 8], [9, 9], 8, [4, 4]),
}


@pytest.mark.parametrize(("deserved", "wanted", "capacity", "due"), DUE.values(), ids=DUE)
def test_what_teams_are_due(deserved: list[float], wanted: list[float], capacity: float, due: list[float]) -> None:
    assert water_fill(deserved, wanted, capacity) == pytest.approx(due)


AMOUNTS = st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=5)


@given(AMOUNTS, st.floats(1, 100))
def test_all_that_is_wanted_is_given_out_and_no_more(teams: list[tuple[float, float]], capacity: float) -> None:
    deserved, wanted = zip(*teams, strict=True)
    due = water_fill(deserved, wanted, capacity)
    assert sum(due) == pytest.approx(min(capacity, sum(wanted)), abs=1e-6)
    assert all(d <= w + 1e-9 for d, w in zip(due, wanted, strict=True))


def test_due_follows_who_wants_what_over_time() -> None:
    fair = Fairness((1.0, 1.0), 2.0)
    fair.wants(0, 2, 0.0)
    fair.wants(1, 2, 10.0)
    fair.advance(20.0)
    fair.ran(0, 20.0, 1)
    assert fair.due == [30.0, 10.0] and fair.ratios() == (pytest.approx(2 / 3), 0.0)


def test_our_teams_get_nearer_to_what_they_are_due_than_those_of_a_scheduler_without_teams() -> None:
    teams = replace(SMALL, training_share=1.0, jobs=150, load=1.4, teams=((0.8, 4.0), (0.2, 4.0)))
    ours, kube = (study(teams, policy, [1], Random)[0].fairness for policy in ("gpufleet", "kube-default"))
    assert min(ours) > 0.85 and min(ours) > min(kube)
