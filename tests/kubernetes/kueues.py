"""Four nodes of eight GPUs in two racks that are Kueue's, and two queues that deserve half of them each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from tests.builders import queue
from tests.gangs import counted
from tests.kubernetes.test_rendered_objects import folder
from tests.sandboxes import eventually
from tools.kubernetes.applying import apply
from tools.kubernetes.kueue import MANAGED, kueue
from tools.kubernetes.nodes import GpuNode, add_nodes, is_ready, played_by_kwok
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes.rendering.handoff import kueue as handing
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import Level
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.model.tenancy import Team

PRODUCT = "NVIDIA-H100-80GB-HBM3"
LEVELS = (Level("leaf", "example.com/rack"),)
NAMES = [f"kueue-{rack}{n}" for rack in ("a", "b") for n in range(2)]
NODES = tuple(counted(name, labels={"nvidia.com/gpu.product": PRODUCT}) for name in NAMES)
QUEUES = (queue("owner", deserved=16), queue("borrower", deserved=16))
SPACES = {"owner": "kueue-owner", "borrower": "kueue-borrower"}
TEAMS = tuple(Team(name, name, ("p",), namespace=space) for name, space in SPACES.items())


@contextmanager
def nodes_of_kueue(client: httpx.Client, control_plane: ControlPlane) -> Iterator[None]:
    """With a Kueue that runs, its quotas, and the namespaces of both teams; afterwards nodes and namespaces go."""
    with kueue(control_plane):
        for name in NAMES:
            labels = {"nvidia.com/gpu.product": PRODUCT, "gpufleet.io/scheduler": "kueue", "example.com/rack": name[-2]}
            taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
            add_nodes(client, [played_by_kwok(GpuNode(name, labels=labels, taints=taints).raw())])
        for name in NAMES:
            eventually(lambda name=name: is_ready(client.get(f"/api/v1/nodes/{name}").json()))
        labels = {"gpufleet.io/fleet": "main", MANAGED: "true"}
        spaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}}
            for space in SPACES.values()
        ]
        apply(client, [*spaces, *priority_classes("main")])
        for one in handing.quota_objects("main", QUEUES, TEAMS, NODES, LEVELS):
            answer = client.patch(
                f"{folder(one)}/{one['metadata']['name']}",
                params={"fieldManager": "platform", "force": "true", "fieldValidation": "Strict"},
                json=one,
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            assert answer.is_success, answer.text
        yield
        for name in NAMES:
            client.delete(f"/api/v1/nodes/{name}")
        for space in SPACES.values():
            client.delete(f"/api/v1/namespaces/{space}")
