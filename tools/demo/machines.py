"""The machines of the embedded cloud as nodes of a Kubernetes cluster: they join, are announced to leave, and are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import httpx

from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import Temporary
from gpufleet.model.hardware import Node, NodeState
from tools.kubernetes.kubelet import Kubelet
from tools.kubernetes.nodes import GpuNode, Raw

LEAVING = {"key": "gpufleet.io/reclaiming", "value": "cloud", "effect": "NoSchedule"}
"""What a node agent writes when it has heard the cloud's notice."""
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


class Machines:
    """Plays what stands between a cloud and its Kubernetes nodes: boot, node agent, the controller that removes nodes."""

    def __init__(self, cloud: SandboxCluster, kubelet: Kubelet, api: httpx.Client, tell: Callable[[str], None]) -> None:
        self._cloud, self._kubelet, self._api, self._tell = cloud, kubelet, api, tell
        self._joined: set[str] = set()
        self._told: set[str] = set()

    def follow(self) -> None:
        """Bring the nodes in step with the machines. What does not answer now is asked again by the next call."""
        try:
            machines = {node.name: node for node in self._cloud.observe().nodes}
            there = {name for name, node in machines.items() if node.state is not NodeState.LOST}
            for name in sorted(there - self._joined):
                self._join(machines[name])
            for name in sorted(there - self._told):
                if machines[name].state is NodeState.RECLAIMING:
                    self._announce(name)
            for name in sorted(self._joined - there):
                self._leave(name)
        except (Temporary, httpx.HTTPError) as error:
            self._tell(f"machines: {error}")

    def _join(self, machine: Node) -> None:
        self._kubelet.add(node_of(machine))
        self._joined.add(machine.name)
        self._tell(f"{machine.name} joined")

    def _announce(self, name: str) -> None:
        patch = {"spec": {"taints": [LEAVING]}}
        self._api.patch(f"/api/v1/nodes/{name}", json=patch, headers=_STRATEGIC).raise_for_status()
        self._told.add(name)
        self._tell(f"{name} is taken back by the cloud")

    def _leave(self, name: str) -> None:
        self._kubelet.remove(name)
        self._joined.discard(name)
        self._told.discard(name)
        self._tell(f"{name} is gone")


def node_of(machine: Node) -> Raw:
    """A machine as the GPU Operator, the cloud's controller and a topology labeller would show it."""
    zone, leaf = machine.position
    slices = Counter(instance.profile for device in machine.devices for instance in device.instances)
    return GpuNode(
        machine.name,
        machine.model.name,
        gpus=sum(not device.instances for device in machine.devices),
        slices=slices,
        sliced=sum(bool(device.instances) for device in machine.devices),
        labels={
            "topology.kubernetes.io/region": machine.region,
            "topology.kubernetes.io/zone": zone,
            "network.topology.nvidia.com/leaf": leaf,
            "gpufleet.io/capacity": str(machine.capacity),
        },
        cpu=int(machine.cpu or 96),
        memory_gib=(machine.memory_mib or 1 << 20) >> 10,
        provider_id=f"sandbox:///{zone}/{machine.name}",
    ).raw()
