"""Change files: what is read, what is refused, and what is said of the difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.commands import offline
from gpufleet.errors import Invalid, NotFound
from gpufleet.formats.change import load_change
from gpufleet.formats.scenario import load
from gpufleet.model.hardware import NodeState
from gpufleet.units import GpuAmount

FLEET = """
version: 1
at: 2026-01-01T00:00:00Z
levels: [leaf]
nodes:
  - {name: n1, model: H100-80, gpus: 8, path: [l1]}
  - {name: n2, model: H100-80, gpus: 8, path: [l1]}
queues:
  - {name: top, deserved: {"*": 8}}
  - {name: a, parent: top, deserved: {"*": 8}, limit: {"*": 16}, weight: 3, min_runtime: 5m}
  - {name: b}
running:
  - {job: r, queue: a, started: 2025-12-31T20:00:00Z, pods: [{node: n1, gpus: 8}]}
pending:
  - {job: p, queue: a, pods: [{gpus: 8}]}
  - {job: q, queue: b, pods: [{gpus: 8}]}
"""


def change(text: str) -> Any:
    fleet, _ = load(FLEET)
    return load_change("version: 1\n" + text, fleet)


WRONG = {
    "a key nobody knows": ("remove_jobs: [r]", "remove_jobs", "line 2"),
    "another version": ("version: 9", "version", "twice"),
    "a node that is not there": ("remove_nodes: [n9]", "remove_nodes[0]", "n9"),
    "a node removed twice": ("remove_nodes: [n1, n1]", "remove_nodes[1]", "twice"),
    "a node that is there already": ("add_nodes: [{name: n1, model: T4-16, gpus: 1}]", "add_nodes", "n1"),
    "a node with a key nobody knows": ("add_nodes: [{name: n3, model: T4-16, gpus: 1, colour: red}]", "add_nodes[0].colour",
                                       "colour"),
    "more nodes than any fleet has": ("add_nodes: [{name: 'm{}', count: 100001, model: T4-16, gpus: 1}]",
                                      "add_nodes[0].count", "100000"),
    "a state of a removed node": ("remove_nodes: [n1]\nnode_states: {n1: lost}", "node_states.n1", "n1"),
    "a state nobody knows": ("node_states: {n1: asleep}", "node_states.n1", "asleep"),
    "a job that is not there": ("cancel: [ghost]", "cancel[0]", "ghost"),
    "a submitted job that is there already": ("submit: [{job: p, queue: a, pods: [{gpus: 1}]}]", "submit[0].job", "'p'"),
    "two submitted jobs of one name": ("submit: [{job: s, queue: a, pods: [{gpus: 1}]}, {job: s, queue: a, pods: "
                                       "[{gpus: 1}]}]", "submit[1].job", "'s'"),
    "a submitted job in no queue of the fleet": ("submit: [{job: s, queue: ghost, pods: [{gpus: 1}]}]", "submit[0].queue",
                                                 "ghost"),
    "a submitted job in a queue with children": ("submit: [{job: s, queue: top, pods: [{gpus: 1}]}]", "submit[0].queue",
                                                 "children"),
    "a submitted job in a wrong form": ("submit: [{job: s, queue: a, pods: [{gpus: 1, profile: 1g.10gb}]}]",
                                        "submit[0].pods[0]", "gpus and profile"),
    "a limit below what the queue goes on deserving": ("queues: [{name: a, limit: {'*': 4}}]", "queues[0].limit", "8"),
    "a guarantee above the limit that stays": ("queues: [{name: a, deserved: {'*': 20}}]", "queues[0].deserved", "16"),
    "a parent that is not there": ("queues: [{name: c, parent: nowhere}]", "queues[0]", "nowhere"),
    "a queue below one that has jobs": ("queues: [{name: c, parent: b}]", "queues", "'b'"),
    "a queue inside itself": ("queues: [{name: top, parent: a}]", "queues[0]", "ancestor"),
    "a list where names are meant": ("cancel: [[r]]", "cancel[0]", "text"),
    "a word where a list is meant": ("remove_nodes: n1", "remove_nodes", "list"),
    "nothing that is YAML": ("cancel: [", "line", "YAML"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where", "word"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(text: str, where: str, word: str) -> None:
    with pytest.raises(Invalid) as error:
        change(text)
    assert "change" in str(error.value) and where in str(error.value) and word in str(error.value)


def test_the_version_is_asked_for() -> None:
    fleet, _ = load(FLEET)
    with pytest.raises(Invalid, match="'version' is missing"):
        load_change("cancel: [r]\n", fleet)
    with pytest.raises(Invalid, match="version '2' is not known"):
        load_change("version: 2\n", fleet)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    fleet, _ = load(FLEET)
    with pytest.raises(NotFound, match=r"gone\.yaml"):
        load_change(tmp_path / "gone.yaml", fleet)


def test_a_queue_keeps_what_the_change_does_not_say() -> None:
    (queue,) = change("queues: [{name: a, limit: {'*': 12}}]").queues
    assert (queue.parent, queue.weight, dict(queue.deserved), dict(queue.limit)) == (
        "top", 3.0, {"*": GpuAmount.of(8)}, {"*": GpuAmount.of(12)}
    )  # fmt: skip
    (free,) = change("queues: [{name: a, limit: {}}]").queues
    assert free.limit == ()


def test_a_new_queue_may_stand_below_another_new_one() -> None:
    found = change(
        "queues: [{name: org}, {name: team, parent: org}]\nsubmit: [{job: s, queue: team, pods: [{gpus: 1}]}]"
    )
    assert [(q.name, q.parent) for q in found.queues] == [("org", None), ("team", "org")]


def test_names_may_be_used_again_by_who_takes_the_place() -> None:
    found = change(
        "remove_nodes: [n1]\nadd_nodes: [{name: n1, model: T4-16, gpus: 4}]\n"
        "cancel: [p]\nsubmit: [{job: p, queue: b, pods: [{gpus: 1}]}]"
    )
    assert (found.remove_nodes, found.add_nodes[0].model.name, found.submit[0].job.queue) == (("n1",), "T4-16", "b")


def test_states_are_by_node() -> None:
    assert change("node_states: {n1: cordoned, n2: lost}").node_states == (
        ("n1", NodeState.CORDONED),
        ("n2", NodeState.LOST),
    )


# ---------------------------------------------------------------- what is said


def run(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> str:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "change.yaml").write_text("version: 1\n" + text)
    words = ["what-if", str(tmp_path / "fleet.yaml"), "--change", str(tmp_path / "change.yaml")]
    assert offline.main([*words, *(["--json"] if as_json else [])]) == 0
    return capsys.readouterr().out


SAID = {
    "nothing": ("", ["The change makes no difference to the plan."]),
    "a start": (
        "add_nodes: [{name: n3, model: H100-80, gpus: 8, path: [l1]}]",
        ["With the change 1 more job starts", "+ start p on n3", "- capacity is asked for p"],
    ),
    "an end": (
        "remove_nodes: [n2]",
        ["With the change 1 job no longer starts", "- start q on n2", "it waits (not-enough): 8 GPUs are needed"],
    ),
    "work that is put back": (
        "node_states: {n1: lost}",
        ["1 running job goes back into the queue", "~ r loses its place on n1 and is put back in the queue; it"],
    ),
    "a cancel": ("cancel: [r]", ["1 job is cancelled", "~ r is cancelled", "+ start p on"]),
    "a submitted job that waits": (
        "submit: [{job: s, queue: b, pods: [{gpus: 16}]}]",
        ["1 more job waits", "+ s waits at place 2 (too-large)", "capacity is asked for s"],
    ),
}


@pytest.mark.parametrize(("text", "lines"), SAID.values(), ids=SAID)
def test_a_person_reads_the_sum_first_and_then_each_difference(
    text: str, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, text, capsys, as_json=False)
    assert lines[0] in out.splitlines()[0]
    assert all(line in out for line in lines), out


@pytest.mark.parametrize(("text", "lines"), SAID.values(), ids=SAID)
def test_json_has_the_same_sum(text: str, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(tmp_path, text, capsys, as_json=True))
    assert lines[0] in found["summary"]
    assert {"starts", "no_longer_starts", "elsewhere", "requeued", "cancelled", "evictions", "moves", "pending"} <= set(
        found
    )


def test_without_a_change_file_the_command_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert offline.main(["what-if", str(tmp_path / "fleet.yaml")]) == 2
    assert "--change FILE" in capsys.readouterr().err


def test_a_submitted_job_may_ask_for_as_much_as_was_measured() -> None:
    found = change(
        "memory_points: [{workload: w, batch: 1, peak_gib: 8}]\n"
        "submit: [{job: s, queue: a, pods: [{slice: {like: {workload: w, batch: 1}}}]}]"
    )
    demand = found.submit[0].job.pod_sets[0].demand
    assert demand.memory_mib > 8 * 1024 and "w" in found.submit[0].job.pod_sets[0].derived
