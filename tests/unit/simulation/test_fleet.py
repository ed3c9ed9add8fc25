"""A fleet in simulated time: what is counted is what happened, and the baselines do what they are said to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.errors import Invalid
from gpufleet.formats.fleet_spec import load_spec
from gpufleet.simulation.fleet.kube import KubeDefault
from gpufleet.simulation.fleet.metrics import quantile
from gpufleet.simulation.fleet.progress import Progress, slowdown
from gpufleet.simulation.fleet.spec import Fleet, Serving, Spec, Speed, Training
from gpufleet.simulation.fleet.study import POLICIES, mean_of, study
from gpufleet.simulation.fleet.workload import Work, workload
from gpufleet.simulation.fleet.world import World

HOUR = 3600.0
SMALL = Spec(
    fleet=Fleet(nodes=4, per_leaf=2),
    jobs=60,
    load=1.0,
    pairs=((2 * HOUR, 1), (3 * HOUR, 4), (5 * HOUR, 8), (8 * HOUR, 8)),
)
MIXED = replace(
    SMALL,
    jobs=25,
    training_share=0.6,
    fleet=Fleet(nodes=2, model="A100-80", per_leaf=2),
    serving=Serving(needs=((0.7, 0.11, 0.14), (0.3, 0.4, 0.42))),
)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_is_useful_than_there_is_and_the_same_seed_tells_the_same(policy: str) -> None:
    first, again = (study(SMALL, policy, [7], Random)[0] for _ in range(2))
    assert first == again
    assert 0 < first.effective_throughput <= first.useful_utilisation + 1e-9 <= 1 + 1e-9


def test_every_policy_is_given_the_same_work() -> None:
    assert workload(SMALL, Random(3)) == workload(SMALL, Random(3)) != workload(SMALL, Random(4))


def test_ours_asks_for_whole_nodes_however_many_gpus_a_pod_of_the_baselines_has() -> None:
    ours, kube = (
        [study(replace(SMALL, training=Training(pod=pod)), policy, [2], Random)[0] for pod in (1, 8)]
        for policy in ("gpufleet", "kube-default")
    )
    assert ours[0] == ours[1] and kube[0] != kube[1]


def test_waits_by_class_are_the_waits_of_all() -> None:
    found = study(SMALL, "gpufleet", [2], Random)[0]
    assert list(found.class_waits) == ["1", "2-7", "8", "16", "32"]
    assert sorted(w for waits in found.class_waits.values() for w in waits) == sorted(found.training_waits)


@pytest.mark.parametrize("policy", POLICIES)
def test_gpu_time_is_work_or_has_a_name_for_what_it_was_lost_to(policy: str) -> None:
    """All but restarts (a few minutes each) is either useful or idle in one of four ways."""
    found = study(SMALL, policy, [3], Random)[0]
    idle = sum(part for name, part in found.losses.items() if name != "slowed")
    restarts = (found.evictions + found.moves) * 32 * 360 / (32 * 30 * HOUR)
    assert 1 - restarts <= found.useful_utilisation + idle <= 1 + 1e-9
    assert (found.losses["held"] > 0) == (policy != "gpufleet")


def test_offered_work_over_capacity_is_the_load() -> None:
    works = workload(replace(SMALL, load=0.9), Random(1))
    offered = sum(w.seconds * w.gpus for w in works)
    assert offered / (SMALL.fleet.total * works[-1].arrives) == pytest.approx(0.9)


def test_services_on_slices_are_useful_where_whole_cards_are_not() -> None:
    ours, kube = (study(MIXED, policy, [1], Random)[0] for policy in ("gpufleet", "kube-default"))
    assert ours.useful_utilisation > kube.useful_utilisation and ours.oom_kills == 0
    assert quantile(ours.inference_waits, 0.99) <= quantile(kube.inference_waits, 0.99)


def test_a_margin_of_nothing_kills_replicas() -> None:
    tight = replace(MIXED.serving, needs=((1.0, 0.12, 0.14),), margin=0.0, error=0.03)
    assert study(replace(MIXED, serving=tight), "gpufleet", [1], Random)[0].oom_kills > 0


# ---------------------------------------------------------------- one job's progress

WORK = Work("w", 0.0, 4 * HOUR, 16, interval=HOUR)
WHERE = {
    "where it belongs": ((0, 1), 1.0),
    "on two leaves though one would do": ((1, 2), 1.1),
    "on four nodes though two would do": ((0, 0, 1, 2, 3), 1.3),
}


@pytest.mark.parametrize(("nodes", "factor"), WHERE.values(), ids=WHERE)
def test_how_fast_a_gang_goes(nodes: tuple[int, ...], factor: float) -> None:
    assert slowdown(WORK, nodes, Speed(), 8, 2) == factor


def test_a_stop_loses_the_work_since_the_last_save() -> None:
    job = Progress(WORK)
    job.start(0.0, (0, 1), SMALL)
    assert job.stop(2.5 * HOUR) == pytest.approx(HOUR / 2) and job.done == pytest.approx(2 * HOUR)


def test_a_planned_stop_saves_first_and_a_job_that_never_saves_loses_all() -> None:
    saving, other = Progress(WORK), Progress(replace(WORK, interval=None))
    for job in (saving, other):
        job.start(0.0, (0, 1), SMALL)
    assert saving.stop(2.5 * HOUR, planned=True) == 0
    assert other.stop(2.5 * HOUR, planned=True) == pytest.approx(2.5 * HOUR)


@settings(deadline=None)
@given(st.lists(st.floats(60, 20_000), min_size=1, max_size=6))
def test_work_done_and_work_lost_are_the_time_it_ran(runs: list[float]) -> None:
    job, now, ran = Progress(replace(WORK, seconds=1e9)), 0.0, 0.0
    for length in runs:
        job.start(now, (0, 1), SMALL)
        now, ran = now + length, ran + length
        job.stop(now)
        now += 100.0
    assert job.done + job.lost == pytest.approx(ran)


# ---------------------------------------------------------------- the baseline


def test_a_gang_that_is_not_whole_holds_what_it_has() -> None:
    world = World(replace(SMALL, fleet=Fleet(nodes=3)))
    works = [
        Work("a", 0.0, 9 * HOUR, 8),
        Work("b", 1.0, HOUR, 24),
        Work("c", 2.0, HOUR, 8),
        Work("z", 5 * HOUR, 1.0, 8),
    ]
    world.run(works, KubeDefault(world, Random(1)))
    assert world.jobs["b"].first_start is None and world.jobs["c"].first_start is None


def test_a_gang_that_is_not_whole_gives_back_where_that_is_asked_for() -> None:
    spec = replace(SMALL, fleet=Fleet(nodes=2), release=1200.0)
    world = World(spec)
    works = [
        Work("a", 0.0, 2 * HOUR, 8),
        Work("b", 1.0, HOUR, 16),
        Work("c", 600.0, 600.0, 8),
        Work("z", 3600.0, 1.0, 8),
    ]
    world.run(works, KubeDefault(world, Random(1)))
    assert world.jobs["c"].ended  # it ran on what b gave back


def test_a_card_is_a_card_for_the_smallest_replica() -> None:
    world = World(replace(MIXED, fleet=Fleet(nodes=1, gpus=1)))
    works = [Work("i1", 0.0, HOUR, 0, memory=0.1, compute=0.1), Work("i2", 1.0, HOUR, 0, memory=0.1, compute=0.1)]
    world.run([*works, Work("z", 2.0, 1.0, 1)], KubeDefault(world, Random(1)))
    assert world.jobs["i2"].first_start is None


# ---------------------------------------------------------------- the file

HEAD = "version: 1\n"
WRONG = {
    "a key nobody knows": ("colour: red\n", "colour"),
    "training without durations": ("load: 1.1\n", "durations"),
    "a share above one": ("training_share: 2\n", "training_share"),
    "serving that is not described": ("training_share: 0\n", "serving.needs"),
    "a file of durations that is not there": ("durations: none.csv\n", "cannot be read"),
    "no load at all": ("load: 0\ndurations: d.csv\n", "load"),
}


@pytest.mark.parametrize(("text", "word"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_spec_is_named(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("run_time_s,num_gpus\n7200,1\n")
    path = tmp_path / "spec.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(Invalid, match=word):
        load_spec(path)


def test_a_spec_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("run_time_s,num_gpus\n7200,1\n")
    path = tmp_path / "spec.yaml"
    path.write_text(
        HEAD + "fleet: {nodes: 8, model: A100-80}\njobs: 10\nload: 0.9\ntraining_share: 0.5\ndurations: d.csv\n"
        "serving: {needs: [[1, 0.1, 0.2]], margin: 0.2}\ntraining: {tail: [[16, 0.5]], pod: 1}\nrelease: 20m\n"
    )
    spec = load_spec(path)
    assert spec.fleet == Fleet(nodes=8, model="A100-80") and spec.training.tail == ((16, 0.5),)
    assert (spec.serving.needs, spec.serving.margin, spec.release) == (((1, 0.1, 0.2),), 0.2, 1200.0)


def test_an_interval_is_as_wide_as_few_seeds_make_it() -> None:
    assert mean_of([1.0, 3.0]).ci95 == pytest.approx(12.706) and mean_of([2.0]).ci95 == 0
