"""What the fabric under a gang adds to its pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import on
from tests.gangs import CONFIG, assert_golden, counted, gang, main_of, rendered, variables

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.errors import Permanent

WHOLE = tuple(on(f"n{i}", *range(8)) for i in range(2))
HALF = tuple(on(f"n{i}", *range(4)) for i in range(2))
EFA = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
IMAGES = {"tcpx": "registry.example/tcpx:1", "tcpxo": "registry.example/tcpxo:1"}


def asked(places: Any, config: PodConfig = CONFIG, **of_node: Any) -> dict[str, str]:
    pods = rendered(gang(*places), *(counted(f"n{i}", **of_node) for i in range(2)), config=config).pods
    limits: dict[str, str] = main_of(pods[0])["resources"]["limits"]
    return {name: count for name, count in limits.items() if not name.startswith("nvidia.com/")}


ASKS = {
    "a whole node has all of its EFA devices": ((WHOLE, EFA, "efa"), {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5120Mi"}),
    "half a node has half of them": ((HALF, EFA, "efa"), {"vpc.amazonaws.com/efa": "16", "hugepages-2Mi": "5120Mi"}),
    "what the node says goes before what its type says": (
        (WHOLE, EFA | {"gpufleet.io/fabric-devices": "8"}, "efa"),
        {"vpc.amazonaws.com/efa": "8", "hugepages-2Mi": "5120Mi"},
    ),
    "a shared InfiniBand adapter is asked for once": ((WHOLE, {}, "infiniband"), {"rdma/ib": "1"}),
    "a RoCE adapter likewise": ((WHOLE, {}, "roce"), {"rdma/roce": "1"}),
    "TCPX has no devices to ask for": ((WHOLE, {}, "tcpx"), {}),
    "plain TCP asks for nothing": ((WHOLE, {}, ""), {}),
    "nor does a fabric that nobody knows": ((WHOLE, {}, "omni"), {}),
}  # fmt: skip


@pytest.mark.parametrize(("given", "want"), ASKS.values(), ids=ASKS)
def test_a_gang_asks_for_its_part_of_the_network_devices(given: Any, want: dict[str, str]) -> None:
    places, labels, fabric = given
    config = PodConfig(image="a:1", fabric_images=IMAGES)
    assert asked(places, config, labels=labels, fabric=fabric) == want


def test_a_plugin_that_names_its_devices_otherwise_is_asked_by_that_name() -> None:
    config = PodConfig(image="a:1", fabric_resources={"infiniband": "rdma/hca_shared_devices_a"})
    assert asked(WHOLE, config, fabric="infiniband") == {"rdma/hca_shared_devices_a": "1"}


def test_a_pod_alone_needs_no_fabric() -> None:
    (pod,) = rendered(gang(on("n0", *range(8))), counted(fabric="efa", labels=EFA)).pods
    assert set(main_of(pod)["resources"]["limits"]) == {"nvidia.com/gpu"}
    assert "FI_PROVIDER" not in variables(pod)


def test_huge_pages_come_with_a_request_for_cores_as_the_api_wants_it() -> None:
    pods = rendered(gang(*WHOLE), counted("n0", fabric="efa", labels=EFA), counted("n1", fabric="efa", labels=EFA)).pods
    assert main_of(pods[0])["resources"]["requests"]["cpu"] == "0"


def test_tcpx_works_for_whole_nodes_only() -> None:
    nodes = [counted(f"n{i}", fabric="tcpxo") for i in range(2)]
    config = PodConfig(image="a:1", fabric_images=IMAGES)
    assert "initContainers" in rendered(gang(*WHOLE), *nodes, config=config).pods[0]["spec"]
    assert "initContainers" not in rendered(gang(*HALF), *nodes, config=config).pods[0]["spec"]


def test_a_helper_without_an_image_is_a_job_that_can_never_start() -> None:
    with pytest.raises(Permanent, match="needs tcpx-daemon beside each pod, but no image for fabric 'tcpx' is conf"):
        rendered(gang(*WHOLE), *(counted(f"n{i}", fabric="tcpx") for i in range(2)))


def test_a_jobs_own_setting_of_nccl_wins_over_the_fabrics() -> None:
    nodes = [counted(f"n{i}", fabric="infiniband") for i in range(2)]
    pod = rendered(gang(*WHOLE, env=(("NCCL_SOCKET_IFNAME", "bond0"),)), *nodes).pods[0]
    assert (variables(pod)["NCCL_SOCKET_IFNAME"], variables(pod)["NCCL_NET"]) == ("bond0", "IB")


@pytest.mark.parametrize("fabric", ["efa", "infiniband", "roce", "tcpx", "tcpxo"])
def test_the_pod_is_that_of_the_golden_file(fabric: str) -> None:
    nodes = [counted(f"n{i}", fabric=fabric, labels=EFA if fabric == "efa" else {}) for i in range(2)]
    config = PodConfig(image="registry.example/job:1", fabric_images=IMAGES)
    assert_golden(f"fabric-{fabric}", rendered(gang(*WHOLE), *nodes, config=config).pods[1:])
