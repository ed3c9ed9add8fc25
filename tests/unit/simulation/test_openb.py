"""Replays of openb: the published rules give the published curves, and ours gives out more."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.builders import on

from gpufleet.errors import Invalid
from gpufleet.simulation.openb.cluster import Cluster
from gpufleet.simulation.openb.engine import Engine
from gpufleet.simulation.openb.fgd import typical
from gpufleet.simulation.openb.moves import Mover
from gpufleet.simulation.openb.study import own_runs, study
from gpufleet.simulation.openb.trace import Machine, Request, Run, read_machines, read_requests, read_runs

DATA = Path(__file__).parents[3] / "benchmarks" / "data"
PUBLISHED = {
    "dotprod": "02-DotProd",
    "gpuclustering": "03-GpuClustering",
    "gpupacking": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
"""Our names of the rules and those of the published table."""
NEAR = 0.011
"""Percentage points: the table's rounding."""


@pytest.fixture(scope="module")
def default() -> tuple[Sequence[Machine], Sequence[Request], list[Run]]:
    machines = read_machines(DATA / "openb" / "openb_node_list_gpu_node.csv")
    requests = read_requests(DATA / "openb" / "openb_pod_list_default.csv.gz")
    golden = DATA / "openb_golden"
    order, ties = golden / "default_pod_order.csv.gz", golden / "default_node_prefix.csv.gz"
    return machines, requests, list(read_runs(order, ties, 1, len(requests), len(machines)))


def published(policy: str, seed: int) -> dict[int, float]:
    text = gzip.decompress((DATA / "fgd_expected" / "analysis_allo_discrete.csv.gz").read_bytes()).decode()
    for row in csv.DictReader(io.StringIO(text)):
        if (row["workload"], row["sc_policy"], row["seed"]) == ("openb_pod_list_default", policy, str(seed)):
            return {share: float(row[str(share)]) for share in range(1, 131)}
    raise AssertionError(f"no published curve of {policy}, seed {seed}")


@pytest.mark.parametrize("policy", PUBLISHED)
def test_a_published_rule_gives_the_published_curve(policy: str, default: tuple[object, ...]) -> None:
    machines, requests, runs = default
    (curve,) = study(policy, machines, requests, runs, Random).curves  # type: ignore[arg-type]
    wrong = {
        s: (curve.at(s / 100), v) for s, v in published(PUBLISHED[policy], 42).items() if off(curve.at(s / 100), v)
    }
    assert wrong == {}


def off(found: float | None, expected: float) -> bool:
    return found is None or abs(found - expected) > NEAR


def test_ours_gives_out_more_than_fgd_whether_the_mix_is_known_or_learnt(default: tuple[object, ...]) -> None:
    machines, requests, runs = default
    fgd = published(PUBLISHED["fgd"], 42)
    for known in (True, False):
        found = study("gpufleet", machines, requests, runs, Random, known=known)  # type: ignore[arg-type]
        assert found.mean(1.3) > fgd[130] + 0.7 and found.mean(1.0) > fgd[100] + 0.7


# ---------------------------------------------------------------- small worlds

SHARE = Request(1000, 1024, 1, 300)
WHOLE = Request(1000, 1024, 1, 1000)
PAIR = Request(1000, 1024, 2, 1000)


def two_nodes() -> list[Machine]:
    return [Machine("a", 8000, 8192, 2, "T4"), Machine("b", 8000, 8192, 2, "G2")]


@pytest.mark.parametrize("policy", ("random", *PUBLISHED, "gpufleet"))
def test_nothing_is_given_twice_and_a_full_cluster_refuses(policy: str) -> None:
    runs = [Run(1, tuple(range(8)), (0, 1))]
    (curve,) = study(policy, two_nodes(), [WHOLE] * 8, runs, Random, stop=2.0).curves
    assert curve.at(1.0) == 100 and curve.failed == 4


def test_a_pod_stays_on_the_models_it_names() -> None:
    bound = Request(1000, 1024, 1, 1000, ("G2",))
    (curve,) = study("gpufleet", two_nodes(), [bound] * 4, [Run(1, (0, 1, 2, 3), (0, 1))], Random, stop=1.0).curves
    assert curve.at(1.0) == 50 and curve.failed == 2


def half_used() -> Engine:
    """A share stands on each node; node b also has a whole GPU in use. A pair fits nowhere."""
    engine = Engine(two_nodes(), None)
    for place in (on("a", shares=["0:300/1"]), on("b", 0), on("b", shares=["1:300/1"])):
        engine.ledger.add(place, "pod")
    return engine


def test_a_share_moves_aside_for_a_pair_of_gpus() -> None:
    mover = Mover(half_used(), share=1.0)
    mover.note(on("a", shares=["0:300/1"]), SHARE)
    assert mover.place(Request(1000, 1024, 0, 0))  # a pod placed earns a move
    assert mover.place(PAIR) and mover.moved == 1


def test_without_a_budget_the_pair_waits() -> None:
    mover = Mover(half_used(), share=0.0)
    mover.note(on("a", shares=["0:300/1"]), SHARE)
    assert not mover.place(PAIR) and mover.moved == 0


def test_where_one_arrival_leaps_over_a_share_the_last_before_it_counts() -> None:
    (curve,) = study("bestfit", two_nodes(), [WHOLE, PAIR], [Run(1, (0, 1, 1), (0, 1))], Random, stop=1.3).curves
    assert (curve.at(0.5), curve.at(1.0), curve.at(1.3)) == (25, 75, None)


def test_typical_pods_are_the_frequent_ones() -> None:
    rare = Request(9000, 0, 1, 1000)
    kinds = typical([SHARE] * 60 + [WHOLE] * 38 + [rare] * 2)
    assert kinds.milli.tolist() == [300, 1000] and sum(kinds.share) == pytest.approx(1)


def test_ties_go_to_the_lowest_rank() -> None:
    cluster = Cluster(two_nodes(), (7, 3))
    assert cluster.ties.argmin() == 1
    (curve,) = study("bestfit", two_nodes(), [WHOLE], [Run(1, (0,), (7, 3))], Random, stop=1.0).curves
    assert curve.at(0.25) == 25


def test_own_arrivals_repeat_for_the_same_seed() -> None:
    assert own_runs(two_nodes(), [SHARE, WHOLE], 2, 1.3, Random) == own_runs(
        two_nodes(), [SHARE, WHOLE], 2, 1.3, Random
    )


REFUSED = {
    "an unknown policy": ("magic", 0.0, "known are"),
    "moves by a rule that moves nothing": ("fgd", 0.05, "moves nothing"),
}


@pytest.mark.parametrize(("policy", "moves", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(policy: str, moves: float, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        study(policy, two_nodes(), [WHOLE], [Run(1, (0,), (0, 1))], Random, moves=moves)


WRONG_FILES = {
    "a pod list without a column": ("name,cpu_milli\np,1\n", "has no column memory_mib"),
    "an empty file": ("", "has no column name"),
}


@pytest.mark.parametrize(("text", "words"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_files_that_are_no_traces(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(Invalid, match=words):
        read_requests(path)


def test_orders_of_another_list_are_refused(tmp_path: Path) -> None:
    order, ties = tmp_path / "order.csv", tmp_path / "ties.csv"
    order.write_text("# golden\n42,0,9\n")
    ties.write_text("42,0,1\n")
    with pytest.raises(Invalid, match="names pod 9, the pod list has 2"):
        read_runs(order, ties, 1, 2, 2)
