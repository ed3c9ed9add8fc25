"""Scenario files: what is read, and that every error names file, line or path, and key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpufleet.errors import Invalid, NotFound
from gpufleet.formats.scenario import load, warnings
from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Link, MigRemake
from gpufleet.model.workload import Share, Slice, Whole
from gpufleet.units import GpuAmount, mib

HEAD = "version: 1\nat: 2026-01-01T00:00:00Z\nlevels: [spine, leaf]\n"
NODE = "nodes: [{name: n1, model: H100-80, gpus: 8, path: [s1, l1]}]\n"
QUEUE = "queues: [{name: a, deserved: {'*': 8}}]\n"
JOB = "pending: [{job: j, queue: a, submitted: 2025-12-31T23:00:00Z, pods: [{gpus: 1}]}]\n"


def with_node(more: str) -> str:
    return HEAD + NODE.replace("path: [s1, l1]", more) + QUEUE


def with_job(more: str) -> str:
    return HEAD + NODE + QUEUE + f"pending: [{{job: j, queue: a, {more}}}]\n"


def with_running(pods: str, more: str = "") -> str:
    return HEAD + NODE + QUEUE + f"running: [{{job: r, queue: a, pods: [{pods}]{more}}}]\n"


WRONG = {
    "a key nobody knows in a node": (with_node("colour: red"), "nodes[0].colour", "colour"),
    "a section nobody knows": (HEAD + NODE + "fleets: []\n", "fleets", "line 5"),
    "a misspelt key in a job": (with_job("model: [H100-80], pods: [{gpus: 1}]"), "model", "models"),
    "a queue that used more than all": (HEAD + "queues: [{name: a, used_lately: '1.5'}]\n", "used_lately", "0 to 1"),
    "a switch of the policy that is no switch": (
        HEAD + NODE + "policy: {net_gain_seniority: 4}\n", "net_gain_seniority", "true or false"),
    "half a pod to move": (HEAD + NODE + "policy: {moves_per_pass: 1.5}\n", "moves_per_pass", "whole number"),
    "pods both near and apart": (
        with_job("pods: [{gpus: 1}], topology: {preferred: leaf, spread: node}"), "topology", "contradict"),
    "pods in one leaf, spread over leaves": (
        with_job("pods: [{gpus: 1}], topology: {required: leaf, spread: leaf}"), "topology", "one leaf"),
    "a level to spread over that nobody knows": (
        with_job("pods: [{gpus: 1}], topology: {spread: rack}"), "spread", "rack"),
    "mixed models that are neither yes nor no": (
        with_job("pods: [{gpus: 1}], mix_models: 3"), "mix_models", "true or false"),
    "a misspelt policy": (HEAD + NODE + "policy: {ageing_bond: 1h}\n", "ageing_bond", "ageing_bound"),
    "another version": (HEAD.replace("1", "99", 1) + NODE, "version", "99"),
    "an instant without a zone": (HEAD.replace("00Z", "00") + NODE, "at", "zone"),
    "a model not in the catalogue": (HEAD + NODE.replace("H100-80", "Z900-7"), "nodes[0].model", "Z900-7"),
    "a layout the card does not allow": (with_node("layout: {0: [4g.40gb@4]}"), "n1", "4g.40gb"),
    "instances that overlap": (with_node("layout: {0: [3g.40gb@0, 1g.10gb@2]}"), "n1", "overlaps"),
    "a layout of a GPU the node has not": (with_node("layout: {9: [1g.10gb@6]}"), "n1", "GPU 9"),
    "an unknown kind of capacity": (with_node("capacity: spotty"), "capacity", "spotty"),
    "more path than levels": (with_node("path: [a, b, c]"), "path", "3"),
    "two nodes of one name": (HEAD + "nodes: [{name: n, model: T4-16, gpus: 1}, {name: n, model: T4-16, gpus: 1}]\n",
                              "nodes[1]", "'n'"),
    "a template without a place for the number": (with_node("count: 2"), "name", "{}"),
    "a queue that does not exist": (with_job("pods: [{gpus: 1}]").replace("queue: a", "queue: ghost"), "j", "ghost"),
    "a parent that does not exist": (HEAD + "queues: [{name: a, parent: nowhere}]\n", "a", "nowhere"),
    "two queues that are each other's parent": (
        HEAD + "queues: [{name: x, parent: y}, {name: y, parent: x}]\n", "x", "ancestor"),
    "a job in a queue with children": (
        HEAD + NODE + QUEUE.replace("]", ", {name: b, parent: a}]") + JOB, "queue", "children"),
    "a limit below what is deserved": (HEAD + "queues: [{name: a, deserved: {'*': 4}, limit: {'*': 2}}]\n", "a", "limit"),
    "a limit of all below what models deserve": (
        HEAD + "queues: [{name: a, deserved: {H100-80: 4}, limit: {'*': 2}}]\n", "a", "limit"),
    "a negative count": (with_job("pods: [{count: -1, gpus: 1}]"), "pods[0].count", "-1"),
    "two demands in one set": (with_job("pods: [{gpus: 1, profile: 1g.10gb}]"), "j", "gpus and profile"),
    "no demand at all": (with_job("pods: [{count: 1}]"), "j", "nothing"),
    "a minimum above the gang": (with_job("pods: [{count: 3, gpus: 1}], min_members: 5"), "min_members", "3"),
    "a share above one": (with_job("pods: [{share: {fraction: '1.5', memory_gib: 1}}]"), "fraction", "1.5"),
    "a share finer than a thousandth": (with_job("pods: [{share: {fraction: '0.3333'}}]"), "fraction", "thousandth"),
    "a profile of no card": (with_job("pods: [{profile: 5g.60gb}]"), "profile", "5g.60gb"),
    "a level the fleet has not": (with_job("pods: [{gpus: 1}], topology: {required: rack}"), "topology", "rack"),
    "the same job twice": (with_running("{node: n1, gpus: [0]}") + JOB.replace("job: j", "job: r"), "pending[0]", "'r'"),
    "a running job on no node": (with_running("{node: n9, gpus: [0]}"), "r", "n9"),
    "a running job on GPU 8 of eight": (with_running("{node: n1, gpus: [8]}"), "r", "GPU 8"),
    "a GPU used twice": (with_running("{node: n1, gpus: [0]}, {node: n1, gpus: [0]}"), "n1", "GPU 0"),
    "slices that overlap": (with_running(
        "{node: n1, slices: [{gpu: 0, profile: 2g.20gb, start: 4}]}, "
        "{node: n1, slices: [{gpu: 0, profile: 1g.10gb, start: 5}]}"), "n1", "overlaps"),
    "a card whole and cut": (with_running(
        "{node: n1, gpus: [0]}, {node: n1, slices: [{gpu: 0, profile: 1g.10gb, start: 5}]}"), "n1", "whole and in part"),
    "shares above one card": (with_running(
        "{node: n1, shares: [{gpu: 0, fraction: '0.6'}]}, {node: n1, shares: [{gpu: 0, fraction: '0.6'}]}"),
        "n1", "more than the card"),
    "more counted GPUs than are left": (with_running("{node: n1, gpus: 6}, {node: n1, gpus: 3}"), "n1", "3 GPUs"),
    "a key twice in one mapping": (with_node("gpus: 4"), "gpus", "twice"),
    "a duration in words": (with_job("pods: [{gpus: 1}], runtime: soon"), "runtime", "soon"),
    "no YAML": ("version: [1\n", "line", "YAML"),
    "an empty file": ("", "scenario", "empty"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where", "word"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(text: str, where: str, word: str) -> None:
    with pytest.raises(Invalid) as error:
        load(text)
    assert "scenario" in str(error.value) and where in str(error.value) and word in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.yaml"):
        load(tmp_path / "gone.yaml")


def test_defaults_are_those_of_the_documentation() -> None:
    fleet, policy = load(HEAD + NODE + QUEUE + JOB)
    (node,), (queue,), (waiting,) = fleet.nodes, fleet.queues, fleet.pending
    assert (node.capacity, node.link, node.mig, node.sharing) == (
        CapacityType.OWNED, Link.NVSWITCH, MigRemake.SLICE, True)  # fmt: skip
    assert (queue.parent, queue.weight, queue.limit, queue.min_runtime) == (None, 1.0, (), timedelta(0))
    assert (waiting.job.priority, waiting.job.preemptible, waiting.job.kind, waiting.job.pods) == (
        50,
        True,
        "training",
        1,
    )
    assert policy.ageing_bound == timedelta(hours=1)


def test_a_template_makes_numbered_nodes_and_a_model_without_mig_is_never_remade() -> None:
    fleet, _ = load(HEAD + "nodes: [{name: 't{}', count: 3, model: T4-16, gpus: 4}]\n")
    assert [n.name for n in fleet.nodes] == ["t0", "t1", "t2"]
    assert {n.mig for n in fleet.nodes} == {MigRemake.NEVER}


def test_demands_are_exact() -> None:
    sets = "{gpus: 2}, {slice: {memory_gib: 9.7, compute: 2}}, {profile: 3g.40gb}, {share: {fraction: '0.1', memory_gib: 4}}"
    fleet, _ = load(with_job(f"pods: [{sets}]"))
    assert [s.demand for s in fleet.pending[0].job.pod_sets] == [
        Whole(2), Slice(mib("9.7"), 2), Slice(profile="3g.40gb"), Share(100, 4096)]  # fmt: skip


def test_counted_gpus_are_the_lowest_that_nobody_names() -> None:
    fleet, _ = load(with_running("{node: n1, gpus: 2}, {node: n1, gpus: [1, 2]}, {node: n1, gpus: 1}"))
    assert [p.gpus for p in fleet.running[0].places] == [(0, 3), (1, 2), (4,)]


def test_amounts_may_be_fractions_of_a_gpu() -> None:
    fleet, _ = load(HEAD + "queues: [{name: a, deserved: {'*': 0.5, T4-16: 2}}]\n")
    assert dict(fleet.queues[0].deserved) == {"*": GpuAmount.milli(500), "T4-16": GpuAmount.of(2)}


def test_json_is_read_as_well() -> None:
    fleet, _ = load(
        '{"version": 1, "at": "2026-01-01T00:00:00Z", "nodes": [{"name": "n", "model": "T4-16", "gpus": 1}]}'
    )
    assert [n.name for n in fleet.nodes] == ["n"]


def test_more_deserved_than_there_is_and_missing_labels_are_warned_of() -> None:
    fleet, _ = load(with_node("path: [s1]").replace("'*': 8", "'*': 9"))
    more, label = warnings(fleet)
    assert "9" in more and "8" in more and "n1" in label


def test_every_knob_of_the_policy_is_read_as_what_it_is() -> None:
    knobs = "{net_gain_horizon: 4h, net_gain_seniority: false, leaf_slowdown: 1.1, moves_per_pass: 8, usage_weight: 2}"
    _, policy = load(HEAD + NODE + f"policy: {knobs}\n")
    assert (policy.net_gain_horizon, policy.net_gain_seniority) == (timedelta(hours=4), False)
    assert (policy.leaf_slowdown, policy.moves_per_pass, policy.usage_weight) == (1.1, 8, 2.0)


def test_what_a_queue_used_lately_is_read() -> None:
    fleet, _ = load(HEAD + "queues: [{name: a, used_lately: '0.25'}]\n")
    assert fleet.queues[0].used_lately == 0.25


def test_replicas_apart_and_models_together_are_read() -> None:
    snapshot, _ = load(with_job("pods: [{count: 2, gpus: 1}], topology: {spread: leaf}, mix_models: true"))
    job = snapshot.pending[0].job
    assert job.topology.spread == "leaf" and job.mix_models
