"""The ResourceQuota of a team's namespace follows teams.yaml, whoever changed it meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tests.builders import queue
from tests.planes import ready_nodes
from tests.sandboxes import eventually
from tools.kubernetes.nodes import GpuNode, played_by_kwok
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
from gpufleet.model.tenancy import Team

GPUS = "requests.nvidia.com/gpu"


def test_fences_follow_the_tree_and_undo_what_others_write(
    control_plane: ControlPlane, client: httpx.Client, place: str, tmp_path: Path
) -> None:
    cluster = KubernetesCluster("east", "fences", lambda: access_from(str(control_plane.kubeconfig)), tmp_path)
    team, path = Team("t", "a", (), namespace=place), f"/api/v1/namespaces/{place}/resourcequotas/gpufleet-team"
    patch = {"Content-Type": "application/merge-patch+json"}

    def hard() -> dict[str, Any]:
        return dict(client.get(path).raise_for_status().json()["spec"].get("hard", {}))

    with ready_nodes(client, [played_by_kwok(GpuNode("fenced").raw())]):
        eventually(lambda: any(node.name == "fenced" for node in cluster.observe().nodes))
        try:
            cluster.fence([team], [queue("a", limit=8)])
            assert hard()[GPUS] == "8"
            client.patch(path, json={"spec": {"hard": {GPUS: "99"}}}, headers=patch).raise_for_status()
            cluster.fence([team], [queue("a", limit=8)])
            assert hard()[GPUS] == "8"
            cluster.fence([team], [queue("a", limit=4)])
            assert hard()[GPUS] == "4"
            cluster.fence([team], [queue("a")])
            assert hard() == {}, "a queue without a limit has no fence"
        finally:
            cluster.close()
