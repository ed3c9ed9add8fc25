"""The machines of the embedded cloud as nodes of a Kubernetes cluster: they join, hear that they must leave, and are gone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from gpufleet.clock import SystemClock
from gpufleet.clusters.base import Observation
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import Temporary
from gpufleet.model.hardware import Node, NodeState
from gpufleet.node_agent.__main__ import run
from gpufleet.node_agent.agent import Agent
from gpufleet.node_agent.clouds.aws import Aws
from gpufleet.node_agent.cluster import NodeApi
from tools.demo.metadata import MetadataService
from tools.kubernetes.kubelet import Kubelet
from tools.kubernetes.nodes import GpuNode, Raw


@dataclass(frozen=True, slots=True)
class Place:
    """Where machines become nodes: who plays them, the API as their agents see it, whose pods the agents may end."""

    kubelet: Kubelet
    api: httpx.Client
    metadata: MetadataService
    fleet: str
    namespaces: Sequence[str]


class Machines:
    """Plays what stands between a cloud and its nodes: the boot, the program of our node agent on each, and the
    controller of the cloud that removes the node of a machine that is gone."""

    def __init__(self, cloud: SandboxCluster, place: Place, tell: Callable[[str], None]) -> None:
        self._cloud, self._place, self._tell = cloud, place, tell
        self._agents: dict[str, threading.Event] = {}
        """By the name of each machine that has joined, what ends its agent."""

    def follow(self) -> None:
        """Bring the nodes in step with the machines. What does not answer now is asked again by the next call."""
        try:
            self._step(self._cloud.observe())
        except (Temporary, httpx.HTTPError) as error:
            self._tell(f"machines: {error}")

    def stop(self) -> None:
        """End the agents."""
        for stopped in self._agents.values():
            stopped.set()

    def _step(self, seen: Observation) -> None:
        machines = {node.name: node for node in seen.nodes if node.state is not NodeState.LOST}
        for name in sorted(machines.keys() - self._agents.keys()):
            self._join(machines[name])
        for notice in seen.notices:
            self._place.metadata.announce(notice.node, notice.deadline)
        for name in sorted(self._agents.keys() - machines.keys()):
            self._leave(name)

    def _join(self, machine: Node) -> None:
        self._place.kubelet.add(node_of(machine))
        stopped = self._agents[machine.name] = threading.Event()
        api = NodeApi(self._place.api, machine.name, self._place.fleet, self._place.namespaces)
        agent = Agent(Aws(self._place.metadata.address_for(machine.name)), api, SystemClock())
        threading.Thread(target=run, args=(agent, stopped), name=f"agent-{machine.name}", daemon=True).start()
        self._tell(f"{machine.name} joined")

    def _leave(self, name: str) -> None:
        self._place.kubelet.remove(name)
        self._agents.pop(name).set()
        self._tell(f"{name} is gone")


def node_of(machine: Node) -> Raw:
    """A machine as the GPU Operator, the cloud's controller and a topology labeller would show it."""
    zone, leaf = machine.position
    slices: Mapping[str, int] = Counter(i.profile for device in machine.devices for i in device.instances)
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
