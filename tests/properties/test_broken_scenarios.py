"""Whatever stands in a scenario file: an answer, or one sentence that names what is wrong. Never a crash."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.__main__ import main

RICH = """
version: 1
at: 2026-01-01T00:00:00Z
levels: [spine, leaf]
nodes:
  - {name: 'n{}', count: 3, model: H100-80, gpus: 8, path: [s1, l1], mig: slice, cpu: 64, memory_gib: 512}
  - {name: old, model: A100-40, gpus: 4, path: [s1, l2], mig: empty-gpu, sharing: true, state: cordoned}
  - {name: none, model: H100-80, gpus: 0, path: [s2, l3]}
queues:
  - {name: a, parent: root, deserved: {'*': 8, H100-80: 8}, limit: {'*': 16}, weight: 2}
  - {name: b, parent: root, deserved: {'*': 4}}
running:
  - {job: r1, queue: a, priority: 50, preemptible: true, kind: training, started: 2025-12-31T17:00:00Z,
     last_checkpoint: 2025-12-31T23:50:00Z, runtime: 8h, pods: [{node: n0, gpus: [0, 1, 2, 3]}]}
  - {job: r2, queue: b, priority: 50, preemptible: false, kind: inference, started: 2025-12-31T18:00:00Z,
     pods: [{node: n1, slices: [{gpu: 0, profile: 3g.40gb, start: 4}]}]}
pending:
  - {job: gang, queue: a, submitted: 2025-12-31T21:00:00Z, priority: 60, preemptible: true, kind: training,
     min_members: 2, topology: {required: leaf}, pods: [{count: 4, gpus: 8}]}
  - {job: slice, queue: b, submitted: 2025-12-31T22:00:00Z, priority: 50, kind: inference, preemptible: false,
     pods: [{count: 2, slice: {memory_gib: 18}}]}
  - {job: media, queue: b, submitted: 2025-12-31T22:30:00Z, priority: 50, kind: training, preemptible: true,
     pods: [{count: 1, profile: 1g.10gb+me}]}
  - {job: share, queue: a, submitted: 2025-12-31T23:00:00Z, priority: 40, kind: interactive, preemptible: true,
     pods: [{count: 1, share: {fraction: "0.3", memory_gib: 8}}]}
  - {job: whole, queue: a, submitted: 2025-12-31T23:55:00Z, priority: 50, preemptible: true, kind: training,
     models: [H100-80], runtime: 2h, pods: [{count: 1, gpus: 4}]}
policy: {ageing_bound: 1h}
"""
WEIRD: list[Any] = [
    None, "", 0, -1, 1, 7, 10**10, 10**30, 1.5, float("nan"), float("inf"), True, [], {}, "x", "*",
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-01", "-5h", "1e9h", "10h", "\x00", "é" * 300, [[]],
    {"a": 1}, ["a"], {"*": -1}, {"*": 10**12}, "nan", "0x10", "H100-80", "n0", "a",
]  # fmt: skip


def paths(told: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ()
    for key, value in inside:
        yield (*here, key)
        yield from paths(value, (*here, key))


def break_one(told: Any, dice: random.Random) -> None:
    """Put something else in a place, take it out, give it another name, or say it twice."""
    *way, last = dice.choice(list(paths(told)))
    for key in way:
        told = told[key]
    how = dice.choice(("other", "other", "other", "gone", "renamed", "twice"))
    if how == "gone":
        del told[last]
    elif how == "twice" and isinstance(told, list):
        told.append(copy.deepcopy(told[last]))
    elif how == "renamed" and isinstance(told, dict):
        told[f"{last}x"] = told.pop(last)
    else:
        told[last] = copy.deepcopy(dice.choice(WEIRD))


def ask() -> int:
    """The exit status of the command in `sys.argv`; a crash is the test's own."""
    try:
        return main() or 0
    except SystemExit as ended:
        return int(ended.code or 0)


def check(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    answered = refused = 0
    file = folder / "scenario.yaml"
    for seed in seeds:
        dice, told = random.Random(seed), yaml.safe_load(RICH)
        for _ in range(dice.choice((1, 1, 2))):
            break_one(told, dice)
        file.write_text(yaml.safe_dump(told, allow_unicode=True))
        asked = dice.choice((["plan"], ["settle"], ["explain", "--job", dice.choice(("gang", "slice", "share"))]))
        monkeypatch.setattr(sys, "argv", ["gpufleet", asked[0], str(file), *asked[1:], "--json"])
        status = ask()
        said = capsys.readouterr().err.splitlines()
        assert status in (0, 2), f"seed {seed}: {said}"
        if status == 2:
            refused += 1
            assert said and ("scenario.yaml" in said[-1] or "There is no job" in said[-1]), f"seed {seed}: {said}"
            assert all(line.startswith("warning: ") for line in said[:-1]), f"seed {seed}: {said}"
        else:
            answered += 1
    assert min(answered, refused) > len(seeds) // 20, "both kinds were there"


def test_a_broken_scenario_is_answered_or_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, capsys, monkeypatch, range(400))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_broken_scenarios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, capsys, monkeypatch, range(10_000))


@pytest.mark.parametrize("demand", ["gpus: 1", "slice: {memory_gib: 9}", "profile: 1g.10gb", "profile: 1g.10gb+me",
                                    "share: {fraction: 0.3, memory_gib: 4}"])  # fmt: skip
def test_a_node_without_any_gpu_is_a_node_nothing_fits_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, demand: str
) -> None:
    told = yaml.safe_load(RICH)
    told |= {"nodes": [{"name": "none", "model": "H100-80", "gpus": 0, "path": ["s", "l"]}], "running": []}
    told["pending"] = [{"job": "j", "queue": "a", "submitted": "2025-12-31T21:00:00Z", "priority": 50,
                        "preemptible": True, "kind": "training", "pods": [{"count": 1, **yaml.safe_load(demand)}]}]  # fmt: skip
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(told))
    monkeypatch.setattr(sys, "argv", ["gpufleet", "plan", str(tmp_path / "scenario.yaml"), "--json"])
    assert ask() == 0
    assert '"job": "j"' in capsys.readouterr().out
