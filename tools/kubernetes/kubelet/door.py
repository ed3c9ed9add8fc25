"""What a kubelet says to the API server: its nodes, their leases, the state of their pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import httpx

LEASE_SECONDS: Final = 40
"""As kubelets take it: a node that renews no lease for so long is unknown."""
_STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
_APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
_SETTLED: Final = (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT)
"""The pod is gone, or another of its name is there: nothing is left to be said."""
Raw = Mapping[str, Any]


class ApiDoor:
    """Every call raises httpx.HTTPError when the API server does not answer, or not well: ask again."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def add_node(self, node: Raw) -> None:
        """Registered already is fine: its labels and resources stay as they are."""
        answer = self._client.post("/api/v1/nodes", json=dict(node))
        if answer.status_code != httpx.codes.CONFLICT:
            answer.raise_for_status()

    def delete_node(self, node: str) -> None:
        self._settle(self._client.delete(f"/api/v1/nodes/{node}"))

    def say_ready(self, node: str, port: int) -> None:
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        status = {
            "conditions": [{**ready, "lastTransitionTime": now}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": node}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        self._patch(f"/api/v1/nodes/{node}/status", {"status": status}, _STRATEGIC)

    def is_ready(self, node: str) -> bool:
        """A node whose object was deleted counts as ready: nobody can help it, and no kubelet brings it back."""
        answer = self._client.get(f"/api/v1/nodes/{node}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return True
        conditions = answer.raise_for_status().json()["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def renew(self, node: str) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        self._patch(f"{path}?fieldManager=kubelet&force=true", lease, _APPLY)

    def tell(self, pod: Raw, status: Raw) -> None:
        """For this very pod, not for a later one of its name."""
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._patch(path, {"metadata": {"uid": metadata["uid"]}, "status": dict(status)}, _STRATEGIC)

    def take_away(self, pod: Raw) -> None:
        """The last act for a deleted pod: now the object may go (as soon as its finalizers do)."""
        metadata = pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._settle(self._client.request("DELETE", path, json=body))

    def fetch(self, path: str) -> Raw | None:
        answer = self._client.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        found: Raw = answer.raise_for_status().json()
        return found

    def _patch(self, path: str, body: Raw, kind: Mapping[str, str]) -> None:
        self._settle(self._client.patch(path, json=dict(body), headers=dict(kind)))

    @staticmethod
    def _settle(answer: httpx.Response) -> None:
        if answer.status_code not in _SETTLED:
            answer.raise_for_status()
