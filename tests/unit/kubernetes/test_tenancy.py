"""A team's room on a cluster, and the rights of our programs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.builders import queue
from tests.gangs import assert_golden, counted

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.agents import AgentConfig, node_agent
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.clusters.kubernetes.rendering.quotas import limits_of, quota_of
from gpufleet.clusters.kubernetes.rendering.rbac import installation_objects
from gpufleet.clusters.kubernetes.rendering.tenancy import team_objects
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Team

VISION = Team("vision", "vision", ("p",), namespace="gpufleet-vision")
ORG = queue("org", limit={"*": 20, "H100-80": 12})
LEAF = queue("vision", limit=16, parent="org")
H100, A100 = counted("h"), counted("a", model="A100-80")
SHARED = counted("s", labels={"nvidia.com/gpu.product": "H100-SHARED", "nvidia.com/gpu.replicas": "4"})
SINGLE = counted(
    "m", labels={"nvidia.com/mig.strategy": "single"}, layout={n: [f"1g.10gb@{s}" for s in range(7)] for n in range(8)}
)


def objects(*nodes: Node, **config: Any) -> dict[str, dict[str, Any]]:
    found = team_objects("main", VISION, (ORG, LEAF), nodes or (H100,), PodConfig(**config))
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def test_a_queue_is_bounded_by_itself_and_all_above_it() -> None:
    assert limits_of("vision", (ORG, LEAF)) == {"*": 16, "H100-80": 12}
    assert limits_of("nobody", (ORG, LEAF)) == {}


QUOTAS = {
    "one model has its own limit": ((H100,), "12"),
    "two models have theirs, and not more than both together": ((H100, A100), "16"),
    "replicas of shared GPUs are counted as the API counts them": ((SHARED,), "48"),
    "slices that are called GPUs too": ((SINGLE,), "84"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "want"), QUOTAS.values(), ids=QUOTAS)
def test_the_fence_stands_where_the_limit_is(nodes: tuple[Node, ...], want: str) -> None:
    assert quota_of(limits_of("vision", (ORG, LEAF)), nodes)["requests.nvidia.com/gpu"] == want


def test_slices_are_fenced_as_if_the_whole_limit_were_cut_so() -> None:
    quota = quota_of({"*": Fraction(2)}, (H100,))
    assert quota["requests.nvidia.com/mig-1g.10gb"] == "16"
    assert quota["requests.nvidia.com/mig-7g.80gb"] == "2"


def test_without_a_limit_there_is_no_fence() -> None:
    assert quota_of({}, (H100,)) == {}
    assert quota_of({"H100-80": Fraction(4)}, (H100, A100)) == {}, "the API cannot tell the models apart"


@given(
    some.integers(0, 40),
    some.none() | some.integers(0, 40),
    some.lists(some.sampled_from([H100, A100, SHARED, SINGLE]), min_size=1),
)
def test_the_fence_is_never_nearer_than_the_limit(total: int, own: int | None, nodes: list[Node]) -> None:
    limits = {"*": Fraction(total), **({} if own is None else {"H100-80": Fraction(own)})}
    quota = quota_of(limits, nodes)
    allowed = min(total, *([own] if own is not None and {n.model.name for n in nodes} == {"H100-80"} else [total]))
    assert int(quota["requests.nvidia.com/gpu"]) >= allowed


def test_no_other_team_and_no_metadata_service_is_within_reach() -> None:
    spec = objects()["NetworkPolicy/gpufleet-team"]["spec"]
    assert spec["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert ["169.254.169.254/32"] in [block["ipBlock"]["except"] for block in spec["egress"][2]["to"]]
    opened = objects(metadata_service=True, callers=("gateway",))["NetworkPolicy/gpufleet-team"]["spec"]
    assert "except" not in opened["egress"][2]["to"][0]["ipBlock"]
    assert opened["ingress"][1]["ports"] == [{"protocol": "TCP", "port": "serve"}]


def test_only_a_fabric_that_needs_the_nodes_files_opens_the_namespace() -> None:
    level = "pod-security.kubernetes.io/enforce"
    for fabric, want in (("", "restricted"), ("efa", "restricted"), ("tcpx", "privileged"), ("tcpxo", "privileged")):
        assert objects(counted(fabric=fabric))["Namespace/gpufleet-vision"]["metadata"]["labels"][level] == want


def test_the_teams_account_is_bound_to_a_cloud_by_annotations_and_speaks_to_no_api() -> None:
    account = objects(identity_annotations={"eks.amazonaws.com/role-arn": "arn"})["ServiceAccount/gpufleet-job"]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn"}
    assert account["automountServiceAccountToken"] is False


def test_nobody_of_ours_may_touch_secrets_or_give_rights() -> None:
    rules = [rule for one in installation_objects("main") for rule in one.get("rules", ())]
    named = {resource for rule in rules for resource in rule["resources"]}
    assert not named & {"secrets", "*", "roles", "rolebindings", "clusterroles", "pods/exec", "serviceaccounts/token"}
    assert "*" not in {word for rule in rules for word in (*rule["verbs"], *rule["apiGroups"])}


def test_the_manifests_are_those_of_the_golden_files() -> None:
    agent = node_agent(
        "main", ["gpufleet-vision", "gpufleet-speech"], AgentConfig("registry.example/gpufleet:1", "aws")
    )
    assert_golden("installation", [*installation_objects("main"), *priority_classes("main"), agent])
    assert_golden("team", objects().values())
