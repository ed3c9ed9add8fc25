"""Nodes of Kubernetes, as clouds and the GPU Operator label them, read into what can be planned on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from gpufleet.clusters.kubernetes.labels import SeeingConfig, seeing_config
from gpufleet.clusters.kubernetes.seeing.fleet import ClusterFacts, Known, Seen, see
from gpufleet.clusters.kubernetes.seeing.foreign import foreign_pod, taken_by_node
from gpufleet.clusters.kubernetes.seeing.held import Held, held_on_node
from gpufleet.clusters.kubernetes.seeing.nodes import node_fact
from gpufleet.clusters.kubernetes.seeing.slices import claim_fact, held_by_others, slice_fact
from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Exactness, MigInstance, MigRemake, Node, NodeState

Raw = dict[str, Any]

H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "mixed",
}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
READY = ({"type": "Ready", "status": "True"},)


def raw_node(
    name: str = "n1",
    labels: Mapping[str, str] = H100,
    *,
    gives: Mapping[str, Any] | None = None,
    has: Mapping[str, Any] | None = None,
    conditions: tuple[Raw, ...] = READY,
    **spec: Any,
) -> Raw:
    """A node with eight H100; `gives` is what it may give away, `has` what it has."""
    gives = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"} if gives is None else gives
    return {
        "metadata": {"name": name, "uid": name, "labels": dict(labels)},
        "spec": spec,
        "status": {"allocatable": gives, "capacity": gives if has is None else has, "conditions": list(conditions)},
    }


def look(*nodes: Raw, config: SeeingConfig | None = None, **facts: Any) -> Seen:
    config = config or SeeingConfig()
    return see(ClusterFacts(tuple(node_fact(raw, config) for raw in nodes), **facts), config, "east")


def only(*nodes: Raw, **facts: Any) -> Node:
    (node,) = look(*nodes, **facts).nodes
    return node


def usable(node: Node) -> list[int]:
    return [d.index for d in node.devices if d.healthy]


def slices(node: Node) -> Counter[str]:
    return Counter(i.profile for d in node.devices for i in d.instances)


def raw_pod(node: str = "n1", requests: Mapping[str, str] | None = None, **status: Any) -> Raw:
    asked = {"nvidia.com/gpu": "1"} if requests is None else requests
    return {
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": dict(asked)}}]},
        "status": {"phase": "Running", **status},
    }


def taken(*pods: Raw) -> Any:
    return taken_by_node(found for raw in pods if (found := foreign_pod(raw)))


class TestTheMachine:
    def test_a_dgx_with_the_gpu_operator(self) -> None:
        node = only(raw_node())
        assert (node.name, node.model.name, usable(node)) == ("n1", "H100-80", list(range(8)))
        assert (node.cpu, node.memory_mib, node.cluster) == (96.0, 1 << 20, "east")
        assert (node.state, node.exactness, node.sharing) == (NodeState.READY, Exactness.COUNT, False)

    @pytest.mark.parametrize(
        ("labels", "model"),
        [
            ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}, "A100-40"),
            ({"nvidia.com/gpu.product": "A100-SXM4-40GB"}, "A100-40"),
            ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "A100-80"),
            (
                {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"},
                "A100-40",
            ),
            ({"nvidia.com/gpu.product": "NVIDIA-H100-NVL", "nvidia.com/gpu.memory": "95830"}, "H100NVL-94"),
            ({"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}, "H200-141"),
            ({"nvidia.com/gpu.product": "NVIDIA-GH200-480GB", "nvidia.com/gpu.memory": "97871"}, "H100-96"),
            ({"nvidia.com/gpu.product": "NVIDIA-B200", "nvidia.com/gpu.memory": "183359"}, "B200-180"),
            ({"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.memory": "189471"}, "GB200-186"),
            ({"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.memory": "15360"}, "T4-16"),
            ({"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB"}, "V100-16"),
            ({"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}, "L40S-48"),
            ({"nvidia.com/gpu.product": "NVIDIA-L4"}, "L4-24"),
            ({"nvidia.com/gpu.product": "NVIDIA-A10G", "nvidia.com/gpu.memory": "23028"}, "A10-24"),
            ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "H100-80"),
            ({"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "A100-40"),
            ({"karpenter.k8s.aws/instance-gpu-name": "l4"}, "L4-24"),
            ({"gpu.nvidia.com/class": "H100_NVLINK_80GB"}, "H100-80"),
            ({"gpufleet.io/model": "B300-269", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "B300-269"),
        ],
        ids=lambda value: value if isinstance(value, str) else next(iter(value.values())),
    )
    def test_the_model_is_read_from_whatever_label_there_is(self, labels: dict[str, str], model: str) -> None:
        assert only(raw_node(labels=labels)).model.name == model

    def test_a_gpu_that_nobody_knows_is_told_and_left_out(self) -> None:
        seen = look(raw_node(labels={"nvidia.com/gpu.product": "NVIDIA-H9000"}), raw_node("n2"))
        assert [n.name for n in seen.nodes] == ["n2"]
        assert seen.warnings == ("node n1 is left out: its GPU (NVIDIA-H9000) is not in the catalogue",)

    def test_a_node_without_gpus_is_not_ours_to_plan(self) -> None:
        assert look(raw_node(labels={}, gives={"cpu": "4"})).nodes == ()

    @pytest.mark.parametrize(
        ("labels", "provider_id", "want"),
        [
            ({}, "", CapacityType.OWNED),
            ({}, "aws:///us-east-1a/i-0123", CapacityType.ON_DEMAND),
            ({"karpenter.sh/capacity-type": "spot"}, "aws:///us-east-1a/i-0123", CapacityType.SPOT),
            ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "aws:///a/i-1", CapacityType.RESERVED),
            ({"cloud.google.com/gke-spot": "true"}, "gce://p/z/n", CapacityType.SPOT),
            ({"cloud.google.com/gke-spot": "false"}, "gce://p/z/n", CapacityType.ON_DEMAND),
            ({"cloud.google.com/reservation-name": "big"}, "gce://p/z/n", CapacityType.RESERVED),
            ({"kubernetes.azure.com/scalesetpriority": "spot"}, "azure:///s/n", CapacityType.SPOT),
            ({"gpufleet.io/capacity": "owned"}, "aws:///a/i-1", CapacityType.OWNED),
        ],
    )
    def test_what_was_agreed_about_the_machine(
        self, labels: dict[str, str], provider_id: str, want: CapacityType
    ) -> None:
        assert only(raw_node(labels=H100 | labels, providerID=provider_id)).capacity is want

    def test_the_cloud_instance_behind_it(self) -> None:
        node = only(raw_node(labels=H100 | {"topology.kubernetes.io/region": "us-east-1"}, providerID="aws:///a/i-7"))
        assert (node.provider, node.instance, node.region) == ("aws", "i-7", "us-east-1")
        bare = only(raw_node(providerID="kind://docker/x"))
        assert (bare.provider, bare.instance) == ("owned", None)

    @pytest.mark.parametrize(
        ("labels", "gives", "fabric"),
        [
            ({}, {"vpc.amazonaws.com/efa": "32"}, "efa"),
            ({}, {"rdma/ib": "8"}, "infiniband"),
            ({}, {"rdma/roce": "8"}, "roce"),
            ({"node.kubernetes.io/instance-type": "a3-highgpu-8g"}, {}, "tcpx"),
            ({"node.kubernetes.io/instance-type": "a3-megagpu-8g"}, {}, "tcpxo"),
            ({"gpufleet.io/fabric": "roce"}, {"rdma/ib": "8"}, "roce"),
            ({}, {"rdma/ib": "0"}, ""),
        ],
    )
    def test_its_fabric(self, labels: dict[str, str], gives: dict[str, str], fabric: str) -> None:
        assert only(raw_node(labels=H100 | labels, gives={"nvidia.com/gpu": "8", **gives})).fabric == fabric


class TestTopology:
    @pytest.mark.parametrize(
        ("labels", "levels", "position"),
        [
            (
                {
                    "topology.kubernetes.io/zone": "us-east-1a",
                    "topology.k8s.aws/network-node-layer-1": "nn-1",
                    "topology.k8s.aws/network-node-layer-2": "nn-2",
                    "topology.k8s.aws/network-node-layer-3": "nn-3",
                },
                ("zone", "core", "spine", "leaf"),
                ("us-east-1a", "nn-1", "nn-2", "nn-3"),
            ),
            (
                {"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "s"},
                ("spine", "leaf"),
                ("b", "s"),
            ),
            (
                {"oci.oraclecloud.com/host.network_block_id": "b", "oci.oraclecloud.com/host.rack_id": "r"},
                ("spine", "leaf"),
                ("b", "r"),
            ),
            (
                {"backend.coreweave.cloud/leafgroup": "7", "ds.coreweave.com/nvlink.domain": "d"},
                ("leaf", "nvlink"),
                ("7", "d"),
            ),
            (
                {
                    "fabric.topograph.run/tier-0": "l",
                    "fabric.topograph.run/tier-1": "s",
                    "network.topology.nvidia.com/leaf": "old",
                },
                ("spine", "leaf"),
                ("s", "l"),
            ),
            ({"network.topology.nvidia.com/block": "older"}, ("leaf",), ("older",)),
            ({"nvidia.com/gpu.clique": "u.1", "topology.kubernetes.io/zone": "z"}, ("zone", "nvlink"), ("z", "u.1")),
            ({}, (), ()),
        ],
    )
    def test_every_provider_by_its_own_labels(
        self, labels: dict[str, str], levels: tuple[str, ...], position: tuple[str, ...]
    ) -> None:
        seen = look(raw_node(labels=H100 | labels))
        assert (seen.levels, seen.nodes[0].position) == (levels, position)

    def test_a_missing_label_is_a_domain_of_its_own_and_told(self) -> None:
        leaf = {"network.topology.nvidia.com/leaf": "l1"}
        seen = look(raw_node("a", H100 | leaf), raw_node("b"), raw_node("c"))
        assert [n.position for n in seen.nodes] == [("l1",), ("?b",), ("?c",)]
        assert seen.warnings == tuple(
            f"node {name} has no label for the level leaf: it is a domain of its own" for name in "bc"
        )

    def test_an_installation_has_its_own_levels(self) -> None:
        config = seeing_config(levels=(("room", ("example.com/room",)), ("rack", ("example.com/rack", "rack"))))
        seen = look(raw_node(labels=H100 | {"example.com/room": "1", "rack": "7"}), config=config)
        assert (seen.levels, seen.nodes[0].position) == (("room", "rack"), ("1", "7"))


class TestState:
    @pytest.mark.parametrize(
        ("change", "want"),
        [
            ({}, NodeState.READY),
            ({"unschedulable": True}, NodeState.CORDONED),
            ({"conditions": ()}, NodeState.CORDONED),
            ({"conditions": ({"type": "Ready", "status": "False"},)}, NodeState.CORDONED),
            ({"conditions": ({"type": "Ready", "status": "Unknown"},)}, NodeState.LOST),
            ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}, NodeState.LOST),
            ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, NodeState.READY),
            ({"taints": [{"key": "team", "value": "other", "effect": "NoSchedule"}]}, NodeState.CORDONED),
            ({"taints": [{"key": "team", "value": "other", "effect": "PreferNoSchedule"}]}, NodeState.READY),
            ({"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, NodeState.READY),
            (
                {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]},
                NodeState.RECLAIMING,
            ),
            ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}, NodeState.RECLAIMING),
            ({"labels": H100 | {"nvidia.com/mig.config.state": "pending"}}, NodeState.CORDONED),
            ({"labels": H100 | {"nvidia.com/mig.config.state": "success"}}, NodeState.READY),
            ({"labels": H100 | {"gpufleet.io/scheduler": "kueue"}}, NodeState.CORDONED),
            ({"labels": H100 | {"gpufleet.io/scheduler": "gpufleet"}}, NodeState.READY),
        ],
    )
    def test_the_worst_that_is_true(self, change: dict[str, Any], want: NodeState) -> None:
        assert only(raw_node(**change)).state is want

    def test_a_node_that_is_being_deleted_leaves(self) -> None:
        raw = raw_node()
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert only(raw).state is NodeState.RECLAIMING


class TestWhatOthersLeave:
    def test_gpus_cores_and_memory_of_foreign_pods_are_not_ours(self) -> None:
        others = taken(
            raw_pod(requests={"nvidia.com/gpu": "2", "cpu": "1500m", "memory": "16Gi"}),
            raw_pod(requests={"cpu": "500m"}),
            raw_pod("n2"),
        )
        node = only(raw_node(), taken=others)
        assert (usable(node), node.cpu, node.memory_mib) == ([0, 1, 2, 3, 4, 5], 94.0, (1 << 20) - (16 << 10))

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_who_has_ended_takes_nothing(self, phase: str) -> None:
        assert usable(only(raw_node(), taken=taken(raw_pod(phase=phase)))) == list(range(8))

    def test_the_largest_init_container_counts_when_it_asks_for_more(self) -> None:
        raw = raw_pod(requests={"cpu": "2"})
        raw["spec"]["initContainers"] = [
            {"resources": {"requests": {"cpu": "8"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        ]
        raw["spec"]["overhead"] = {"cpu": "250m"}
        assert only(raw_node(), taken=taken(raw)).cpu == 96 - 8.25

    def test_where_our_own_pods_are_nobody_else_is(self) -> None:
        node = only(raw_node(), taken=taken(raw_pod(), raw_pod()), held={"n1": held_on_node(["6,7"])})
        assert usable(node) == [0, 1, 2, 3, 6, 7]

    def test_a_broken_gpu_is_one_fewer_to_give(self) -> None:
        gives, has = {"nvidia.com/gpu": "7"}, {"nvidia.com/gpu": "8"}
        node = only(raw_node(gives=gives, has=has))
        assert (usable(node), len(node.devices)) == (list(range(7)), 8)

    def test_a_node_whose_device_plugin_is_away_keeps_its_gpus_and_gives_none(self) -> None:
        node = only(raw_node(gives={"cpu": "96"}))
        assert (usable(node), len(node.devices)) == ([], 8)


class TestMig:
    def test_seven_of_the_smallest_on_every_gpu(self) -> None:
        node = only(raw_node(gives={"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"}))
        assert [len(d.instances) for d in node.devices] == [7] * 8

    def test_whole_gpus_beside_cut_ones(self) -> None:
        gives = {"nvidia.com/gpu": "6", "nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-1g.10gb": "3"}
        node = only(raw_node(gives=gives))
        assert slices(node) == {"3g.40gb": 2, "1g.10gb": 3}
        assert [d.index for d in node.devices if not d.instances and d.healthy] == list(range(6))

    def test_what_we_asked_for_ourselves_is_believed_where_the_counts_agree(self) -> None:
        raw = raw_node(gives={"nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "2"})
        raw["metadata"]["annotations"] = {"gpufleet.io/mig-layout": "3:1g.10gb@6 3:1g.10gb@0"}
        assert only(raw).devices[3].instances == (MigInstance(0, "1g.10gb"), MigInstance(6, "1g.10gb"))
        raw["metadata"]["annotations"] = {"gpufleet.io/mig-layout": "3:1g.10gb@6"}
        assert only(raw).devices[3].instances == ()

    def test_slices_that_our_pods_hold_stay_where_they_were_planned(self) -> None:
        raw = raw_node(gives={"nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "3"})
        node = only(raw, held={"n1": held_on_node(["MIG:2/1g.10gb@4"])})
        assert MigInstance(4, "1g.10gb") in node.devices[2].instances and slices(node) == {"1g.10gb": 3}

    def test_slices_that_others_hold_are_not_there(self) -> None:
        raw = raw_node(gives={"nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "3"})
        config = seeing_config(remake_mig=True)
        assert only(raw, config=config).mig is MigRemake.EMPTY_GPU
        node = only(raw, config=config, taken=taken(raw_pod(requests={"nvidia.com/mig-1g.10gb": "2"})))
        assert (slices(node), node.mig) == ({"1g.10gb": 1}, MigRemake.NEVER)

    def test_a_profile_with_media_engines(self) -> None:
        node = only(raw_node(gives={"nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb.me": "1"}))
        assert slices(node) == {"1g.10gb+me": 1}

    def test_a_count_that_no_layout_has_is_cut_down(self) -> None:
        labels = H100 | {"nvidia.com/gpu.count": "1"}
        node = only(raw_node(labels=labels, gives={"nvidia.com/mig-7g.80gb": "3"}))
        assert slices(node) == {"7g.80gb": 1}

    def test_strategy_single_calls_slices_gpus(self) -> None:
        labels = {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
            "nvidia.com/gpu.count": "14",
            "nvidia.com/mig.strategy": "single",
        }
        raw = raw_node(labels=labels, gives={"nvidia.com/gpu": "14"})
        node = only(raw, taken=taken(raw_pod(requests={"nvidia.com/gpu": "3"})))
        assert (node.model.name, len(node.devices), slices(node)) == ("A100-40", 2, {"1g.5gb": 11})

    @pytest.mark.parametrize(
        ("labels", "want"), [(H100, "empty-gpu"), (A100 | {"nvidia.com/mig.capable": "true"}, "empty-node")]
    )
    def test_how_it_may_be_remade(self, labels: dict[str, str], want: str) -> None:
        assert only(raw_node(labels=labels), config=seeing_config(remake_mig=True)).mig == want
        assert only(raw_node(labels=labels)).mig is MigRemake.NEVER


class TestSharing:
    SHARED = H100 | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"}

    def test_replicas_are_not_gpus(self) -> None:
        node = only(raw_node(labels=self.SHARED, gives={"nvidia.com/gpu": "32"}))
        assert (len(node.devices), node.sharing) == (8, True)

    def test_a_gpu_that_others_share_is_theirs(self) -> None:
        raw = raw_node(labels=self.SHARED, gives={"nvidia.com/gpu.shared": "32"})
        others = taken(raw_pod(requests={"nvidia.com/gpu.shared": "1"}))
        assert usable(only(raw, taken=others)) == list(range(7))


class TestDra:
    def device(self, index: int, **more: Any) -> Raw:
        return {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}},
            "capacity": {"memory": {"value": "81559Mi"}},
            **more,
        }

    def slice(self, *devices: Raw) -> Any:
        spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "devices": list(devices)}
        return slice_fact({"spec": spec})

    def test_the_very_devices_are_known(self) -> None:
        mig = {"name": "gpu-0-mig-1g-10gb-19-0", "attributes": {"type": {"string": "mig"}}}
        found = self.slice(self.device(0), self.device(3), mig)
        node = only(raw_node(labels={}, gives={"cpu": "8"}), slices={"n1": found})
        assert (node.model.name, usable(node)) == ("H100-80", [0, 3])
        assert (node.exactness, node.mig) == (Exactness.DEVICE, MigRemake.SLICE)

    def test_what_claims_of_others_hold_is_theirs(self) -> None:
        def claim(fleet: str, *devices: str) -> Any:
            results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": device} for device in devices]
            labels = {"gpufleet.io/fleet": fleet}
            return claim_fact(
                {"metadata": {"labels": labels}, "status": {"allocation": {"devices": {"results": results}}}}
            )

        claims = [claim("mine", "gpu-0"), claim("theirs", "gpu-1"), claim("", "gpu-2-mig-1g-10gb-19-0")]
        found = self.slice(*(self.device(n) for n in range(4)))
        node = only(raw_node(labels={}), slices={"n1": found}, claimed=held_by_others(claims, "mine"))
        assert usable(node) == [0, 3]

    def test_a_tainted_device_is_not_offered(self) -> None:
        assert self.slice(self.device(0, taints=[{"effect": "NoSchedule"}])).gpus == ()

    def test_other_drivers_are_no_business_of_ours(self) -> None:
        assert (
            slice_fact({"spec": {"driver": "nic.example.com", "nodeName": "n1", "devices": [self.device(0)]}}) is None
        )


def test_planned_devices_are_read_as_they_are_written() -> None:
    assert held_on_node(["0,3", "MIG:7/1g.10gb@6,SHARE:2/500", "", "x,99999"]) == Held(
        frozenset({0, 2, 3}), {7: (MigInstance(6, "1g.10gb"),)}
    )


def test_a_second_look_reads_again_what_has_changed_and_nothing_else() -> None:
    """What one look knows, the next may use: it sees the same as a look that knows nothing."""
    config, known = SeeingConfig(), Known()
    few = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "6"}
    looks: tuple[tuple[list[Raw], dict[str, Any]], ...] = (
        ([raw_node("n1"), raw_node("n2")], {}),
        ([raw_node("n1"), raw_node("n2", gives=few)], {}),
        ([raw_node("n1"), raw_node("n2", gives=few)], {"held": {"n1": held_on_node(["7"])}}),
        ([raw_node("n1"), raw_node("n2")], {"taken": taken_by_node([foreign_pod(raw_pod("n1"))])}),
        ([raw_node("n2", unschedulable=True)], {}),
    )
    for nodes, facts in looks:
        told = ClusterFacts(tuple(node_fact(raw, config) for raw in nodes), **facts)
        assert see(told, config, "east", known) == see(told, config, "east")
        assert known.keys() == {raw["metadata"]["name"] for raw in nodes}
