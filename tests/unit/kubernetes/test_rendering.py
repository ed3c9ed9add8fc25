"""What Kubernetes is told about a gang."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import node, on
from tests.gangs import CONFIG, assert_golden, counted, gang, main_of, rendered, variables

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.errors import Permanent, Refused
from gpufleet.model.hardware import Node
from gpufleet.model.workload import Kind

TWO = (on("n0", *range(8)), on("n1", *range(8)))
MPS = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "10"}

ASKS = {
    "whole GPUs are counted": (counted(), on("n0", 0, 1, 2), {"nvidia.com/gpu": "3"}),
    "a slice is asked for by its profile": (
        counted(layout={0: ["1g.10gb@6"]}),
        on("n0", slices=["0:1g.10gb@6"]),
        {"nvidia.com/mig-1g.10gb": "1"},
    ),
    "two slices of one profile are counted": (
        counted(),
        on("n0", slices=["0:1g.10gb@6", "1:1g.10gb@6"]),
        {"nvidia.com/mig-1g.10gb": "2"},
    ),
    "a plus in a profile is a dot in the resource": (
        counted(),
        on("n0", slices=["0:1g.10gb+me@0"]),
        {"nvidia.com/mig-1g.10gb.me": "1"},
    ),
    "with the single strategy a slice is called a GPU": (
        counted(labels={"nvidia.com/mig.strategy": "single"}),
        on("n0", slices=["0:1g.10gb@6"]),
        {"nvidia.com/gpu": "1"},
    ),
    "a share of time is so many replicas": (
        counted(labels={**SLICED, "nvidia.com/gpu.product": "H100-SHARED"}),
        on("n0", shares=["0:250/10"]),
        {"nvidia.com/gpu": "3"},
    ),
    "renamed replicas are asked for by their name": (
        counted(labels=SLICED),
        on("n0", shares=["0:300/10"]),
        {"nvidia.com/gpu.shared": "3"},
    ),
    "with MPS a pod has one replica": (counted(labels=MPS), on("n0", shares=["0:250/20"]), {"nvidia.com/gpu.shared": "1"}),
}  # fmt: skip


@pytest.mark.parametrize(("where", "place", "want"), ASKS.values(), ids=ASKS)
def test_a_place_becomes_a_request(where: Node, place: Any, want: dict[str, str]) -> None:
    asked = main_of(rendered(gang(place), where).pods[0])["resources"]
    assert asked["limits"] == want and asked["requests"] == want


REFUSED = {
    "a node that is gone": (counted("n1"), on("n0", 0), "Node n0 does not exist"),
    "a share where none is offered": (counted(), on("n0", shares=["0:500/20"]), "Node n0 offers no shares"),
    "more than one part of an MPS server": (counted(labels=MPS), on("n0", shares=["0:500/20"]), "cuts each GPU in 4"),
    "a whole GPU where all are shared": (counted(labels=SLICED), on("n0", 0), "shares its GPUs by time-slicing"),
}


@pytest.mark.parametrize(("where", "place", "why"), REFUSED.values(), ids=REFUSED)
def test_what_a_node_cannot_give_is_refused(where: Node, place: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        rendered(gang(place), where)


def test_a_job_without_an_image_or_a_command_can_never_start() -> None:
    with pytest.raises(Permanent, match="names no image and this cluster has no default one"):
        rendered(gang(on("n0", 0)), counted(), config=PodConfig())
    with pytest.raises(Permanent, match="names no command"):
        rendered(gang(on("n0", 0), command=()), counted())


def test_an_image_from_a_registry_that_is_not_allowed_is_refused() -> None:
    config = PodConfig(registries=("registry.example/",))
    assert rendered(gang(on("n0", 0), image="registry.example/a:1"), counted(), config=config)
    with pytest.raises(Permanent, match=r"image 'elsewhere.example/a:1' is from a registry that is not allowed"):
        rendered(gang(on("n0", 0), image="elsewhere.example/a:1"), counted(), config=config)


def test_the_pods_of_a_gang_meet_at_rank_0_in_the_order_of_the_plan() -> None:
    found = rendered(gang(*reversed(TWO)), counted("n0"), counted("n1"))
    first, second = map(variables, found.pods)
    assert [first["RANK"], second["RANK"]] == ["0", "1"]
    assert first["GPUFLEET_NODE"] == "n1"
    assert {first["MASTER_ADDR"], second["MASTER_ADDR"]} == {"train-1a2b-2-0.train-1a2b-2.gpufleet-vision.svc"}
    assert (second["PET_NNODES"], second["PET_NODE_RANK"], second["PET_NPROC_PER_NODE"]) == ("2", "1", "8")
    assert second["JAX_COORDINATOR_ADDRESS"] == f"{first['MASTER_ADDR']}:{first['MASTER_PORT']}"
    assert found.service is not None and found.service["spec"]["publishNotReadyAddresses"] is True
    selector = found.service["spec"]["selector"].items()
    assert all(selector <= pod["metadata"]["labels"].items() for pod in found.pods)


def test_only_rank_0_carries_the_list_of_hosts_that_mpirun_reads() -> None:
    first, second = rendered(gang(*TWO), counted("n0"), counted("n1")).pods
    hosts = first["metadata"]["annotations"]["gpufleet.io/hostfile"].splitlines()
    assert [re.sub(r"\..* ", " ", line) for line in hosts] == ["train-1a2b-2-0 slots=8", "train-1a2b-2-1 slots=8"]
    assert "annotations" not in second["metadata"]
    assert "OMPI_MCA_orte_default_hostfile" not in variables(second)


def test_a_gang_of_one_needs_no_service_and_no_gate() -> None:
    found = rendered(gang(on("n0", 0)), counted())
    assert found.service is None
    assert "schedulingGates" not in found.pods[0]["spec"]
    assert variables(found.pods[0])["MASTER_ADDR"] == "127.0.0.1"


def test_the_grace_is_never_shorter_than_a_save_takes() -> None:
    (pod,) = rendered(gang(on("n0", 0), grace=timedelta(seconds=30.2)), counted()).pods
    assert pod["spec"]["terminationGracePeriodSeconds"] == 31


def test_the_token_is_the_same_in_every_try_and_another_in_every_attempt() -> None:
    config = PodConfig(image="a:1", rendezvous_key="k")
    tokens = [
        variables(rendered(gang(on("n0", 0), job=job), counted(), config=config).pods[0])["GPUFLEET_RENDEZVOUS_TOKEN"]
        for job in ("a", "a", "b")
    ]
    assert tokens[0] == tokens[1] != tokens[2]
    assert "GPUFLEET_RENDEZVOUS_TOKEN" not in variables(rendered(gang(on("n0", 0)), counted()).pods[0])


def test_what_a_shell_would_expand_is_left_to_the_shell() -> None:
    spec = gang(on("n0", 0), command=("sh", "-c", "echo $(date) $HOME $$"), env=(("A", "$(RANK)"), ("B", "$HOME")))
    (pod,) = rendered(spec, counted()).pods
    assert main_of(pod)["command"][2] == "echo $$(date) $$HOME $$$$"
    assert (variables(pod)["A"], variables(pod)["B"]) == ("$$(RANK)", "$HOME")


def test_what_only_the_cluster_knows_wins_over_the_jobs_own_wishes() -> None:
    (pod,) = rendered(gang(on("n0", 0), env=(("RANK", "9"), ("SEED", "7"))), counted()).pods
    assert (variables(pod)["RANK"], variables(pod)["SEED"]) == ("0", "7")


def test_devices_are_named_only_where_the_kubelet_gives_the_planned_ones() -> None:
    assert "GPUFLEET_DEVICES" not in variables(rendered(gang(on("n0", 3)), counted()).pods[0])


def test_memory_is_bounded_and_cores_are_promised() -> None:
    place = on("n0", 0)
    spec = gang(type(place)(0, 0, "n0", (0,), cpu=1.5, memory_mib=4096))
    pod = rendered(spec, counted()).pods[0]
    asked = main_of(pod)["resources"]
    assert asked["requests"] == {"cpu": "1500m", "memory": "4096Mi", "nvidia.com/gpu": "1"}
    assert asked["limits"] == {"memory": "4096Mi", "nvidia.com/gpu": "1"}
    assert pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "2048Mi"


def test_no_class_of_ours_preempts_and_each_kind_of_job_has_one() -> None:
    classes = priority_classes("main")
    assert {c["preemptionPolicy"] for c in classes} == {"Never"}
    used = {rendered(gang(on("n0", 0), kind=k), counted()).pods[0]["spec"]["priorityClassName"] for k in Kind}
    assert used == {c["metadata"]["name"] for c in classes}


GANGS = {
    "gang-of-two": (gang(*TWO), (counted("n0"), counted("n1"))),
    "one-slice": (gang(on("n0", slices=["0:1g.10gb@6"]), job="tiny"), (counted(),)),
    "mps-share": (gang(on("n0", shares=["0:250/20"]), job="small"), (counted(labels=MPS),)),
}


@pytest.mark.parametrize("name", GANGS)
def test_the_objects_are_those_of_the_golden_file(name: str) -> None:
    spec, nodes = GANGS[name]
    found = rendered(spec, *nodes, config=CONFIG)
    assert_golden(name, [*([found.service] if found.service else []), *found.pods])


def test_where_devices_are_claimed_each_pod_claims_the_very_ones_that_were_planned() -> None:
    place = on("n0", slices=["3:1g.10gb@6"])
    found = rendered(gang(place, job="exact"), node("n0"))
    (claim,) = found.claims
    (request,) = claim["spec"]["devices"]["requests"]
    expression = request["exactly"]["selectors"][0]["cel"]["expression"]
    assert 'parentMinor == 3 && device.attributes["gpu.nvidia.com"].profile == "1g.10gb"' in expression
    assert expression.startswith('device.attributes["gpu.nvidia.com"].type == "mig" && ')
    assert found.pods[0]["spec"]["resourceClaims"] == [{"name": "devices", "resourceClaimName": "exact-2-0"}]
    assert main_of(found.pods[0])["resources"] == {"requests": {}, "limits": {}, "claims": [{"name": "devices"}]}
    assert_golden("claims", [claim, *rendered(gang(on("n0", 2, 5)), node("n0")).claims])


def test_no_share_can_be_claimed() -> None:
    with pytest.raises(Refused, match="gives devices by claims: it offers no shares"):
        rendered(gang(on("n0", shares=["0:250/20"])), node("n0"))
