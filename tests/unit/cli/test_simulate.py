"""`gpufleet simulate` as scripts use it: the promised keys on stdout, progress on stderr, one sentence for what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,1024,1,500,\np1,1000,1024,2,1000,\np2,1000,1024,0,0,\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\nn1,64000,262144,2,T4\n"
SPEC = "version: 1\nfleet: {nodes: 2}\njobs: 5\nload: 0.8\ndurations: d.csv\ntraining: {tail: []}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "pods.csv": PODS, "nodes.csv": NODES, "spec.yaml": SPEC, "d.csv": "run_time_s,num_gpus\n7200,4\n3600,8\n",
        "order.csv": "# golden\n42,0,1,2,0,1,1\n43,1,1,0,2,0,1\n", "ties.csv": "42,1,0\n43,0,1\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


def simulate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpufleet", "simulate", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


OPENB = ("openb", "--pods", "pods.csv", "--nodes", "nodes.csv", "--policy")
GOLDEN = ("--order", "order.csv", "--ties", "ties.csv", "--seeds", "2")


@pytest.mark.parametrize("policy", ["fgd", "gpufleet"])
def test_a_replay_answers_with_the_promised_keys(folder: Path, policy: str) -> None:
    done = simulate(folder, *OPENB, policy, *GOLDEN, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and "seed 43" in done.stderr
    assert (found["policy"], found["seeds"], [r["seed"] for r in found["runs"]]) == (policy, 2, [42, 43])
    assert set(found["mean"]) == set(found["sd"]) and found["mean"]["1.0"] > 0 and found["definition"]
    assert set(found["files"]) == {"pods.csv", "nodes.csv", "order.csv", "ties.csv"}


def test_a_fleet_answers_with_the_promised_keys(folder: Path) -> None:
    done = simulate(folder, "fleet", "--spec", "spec.yaml", "--policy", "gpufleet", "--seeds", "2", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["seeds"] == 2
    assert set(found["effective_throughput"]) == set(found["useful_utilisation"]) == {"mean", "ci95"}
    assert found["wait_seconds"]["training"].keys() == found["wait_seconds"]["inference"].keys() == {"p50", "p99"}
    assert {"oom_kills", "evictions", "interruptions", "lost_gpu_hours", "definition", "lost_time"} <= set(found)
    assert found["seed_list"] == [1, 2] == [r["seed"] for r in found["runs"]]
    assert found["effective_throughput"]["mean"] <= found["bound"]["mean"] <= 1
    assert {n: w.keys() for n, w in found["mean_wait_hours"].items()} == {
        n: {"jobs", "mean", "p50"} for n in ("2-7", "8")
    }
    assert set(found["files"]) == {"spec.yaml", "d.csv"}  # the data too


WRONG = {
    "an unknown policy": ((*OPENB, "magic"), "known are"),
    "an order without its ties": ((*OPENB, "fgd", "--order", "order.csv"), "belong together"),
    "a file that is not there": (
        ("openb", "--pods", "none.csv", "--nodes", "nodes.csv", "--policy", "fgd"),
        "none.csv",
    ),
    "no seeds": ((*OPENB, "fgd", "--seeds", "0"), "--seeds"),
    "a mix nobody has": ((*OPENB, "gpufleet", "--mix", "guessed"), "--mix"),
    "a spec that is not there": (("fleet", "--spec", "none.yaml", "--policy", "binpack"), "none.yaml"),
    "a fleet policy nobody knows": (("fleet", "--spec", "spec.yaml", "--policy", "fgd"), "known are"),
}


@pytest.mark.parametrize(("words", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_sentence(folder: Path, words: tuple[str, ...], says: str) -> None:
    done = simulate(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.strip().splitlines()[-1]
    assert says in last and "Traceback" not in done.stderr


SPECS = {
    "teams that deserve more than there is": ("teams: [[1, 500]]", "teams: they deserve 500 GPUs together"),
    "half a team": ("teams: [[0.5]]", "teams[0]: a team is two numbers"),
    "teams without jobs": ("teams: [[0, 1]]", "no team has any part"),
    "more notices than losses": ("faults: {every: 100000, noticed: 3}", "faults.noticed: a part is from 0 to 1"),
    "more than all jobs that save": ("training: {checkpointable: 7}", "training.checkpointable: a part is from 0 to 1"),
    "a crossing that makes faster": ("speed: {leaf: 0}", "speed.leaf: a slowdown is at least 1"),
}


@pytest.mark.parametrize(("line", "says"), SPECS.values(), ids=SPECS)
def test_an_impossible_spec_is_refused_by_its_key(folder: Path, line: str, says: str) -> None:
    (folder / "bad.yaml").write_text(f"version: 1\njobs: 5\ndurations: d.csv\n{line}\n")
    done = simulate(folder, "fleet", "--spec", "bad.yaml", "--policy", "gpufleet", "--seeds", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr and "bad.yaml" in done.stderr and "Traceback" not in done.stderr
