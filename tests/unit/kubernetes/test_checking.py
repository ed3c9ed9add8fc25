"""What `gpufleet kubernetes check` says about nodes, schedulers and rights."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.clusters.kubernetes.checking import Finding, nodes_told, rights_told, schedulers_told
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.seeing.fleet import ClusterFacts, see
from gpufleet.clusters.kubernetes.seeing.nodes import NodeFact, node_fact

GOOD = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "topology.kubernetes.io/zone": "z1",
    "nvidia.com/mig.strategy": "mixed",
}


def fact(name: str = "n0", gpus: int = 8, **labels: str) -> NodeFact:
    told = {**GOOD, **{key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}}
    offers = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    raw: dict[str, Any] = {
        "metadata": {"name": name, "labels": {k: v for k, v in told.items() if v}},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return node_fact(raw, SeeingConfig())


def told(*facts: NodeFact) -> list[Finding]:
    return list(nodes_told(facts, see(ClusterFacts(facts), SeeingConfig(), "main")))


def said(findings: list[Finding], what: str, how: str) -> str:
    return " | ".join(f.detail for f in findings if (f.what, f.how) == (what, how))


def test_gpus_models_levels_and_strategies_are_counted() -> None:
    found = told(fact("n0"), fact("n1"))
    assert said(found, "nodes", "ok") == "2 of 2 nodes have GPUs that we know, 16 in all (2 with H100-80)"
    assert said(found, "topology", "ok") == "levels: zone"
    assert said(found, "mig", "ok") == "strategy of nodes: 2 mixed"


def test_a_cluster_without_a_gpu_that_we_know_is_broken() -> None:
    found = told(fact(nvidia_com__gpu_product="Voodoo-2"))
    assert said(found, "nodes", "broken").endswith("label them, or install the GPU Operator")
    assert "its GPU (Voodoo-2) is not in the catalogue" in said(found, "nodes", "warning")


def test_missing_labels_a_silent_plugin_and_a_failed_change_are_named() -> None:
    found = told(
        fact("n0"),
        fact("n1", gpus=0),
        fact("n2", topology_kubernetes_io__zone="", nvidia_com__mig_config_state="failed"),
    )
    assert "n1 has GPUs by its labels but offers none" in said(found, "device plugin", "warning")
    assert "n2 has no label for the level zone" in said(found, "nodes", "warning")
    assert "the last MIG change failed on n2" in said(found, "mig", "broken")


SCHEDULERS = {
    "ours": ("", [], []),
    "one that is there": ("kueue", ["kueue.x-k8s.io"], ["ok"]),
    "one that is not there": ("volcano", ["kueue.x-k8s.io"], ["broken"]),
    "one that nobody knows": ("slurm", [], ["warning"]),
}


@pytest.mark.parametrize(("label", "groups", "want"), SCHEDULERS.values(), ids=SCHEDULERS)
def test_nodes_of_a_scheduler_need_that_scheduler(label: str, groups: list[str], want: list[str]) -> None:
    assert [f.how for f in schedulers_told([fact(gpufleet_io__scheduler=label)], groups)] == want


def test_the_first_missing_rights_are_told_by_name() -> None:
    (found,) = rights_told([f"patch thing{n}" for n in range(7)], 20)
    assert (
        found.how == "broken" and found.detail.startswith("we may not patch thing0; ") and "and 2 more" in found.detail
    )
    assert [f.how for f in rights_told([], 20)] == ["ok"]
