"""The few things this agent may do at the Kubernetes API: its own pods, its own node. A plain client is enough."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FLEET: Final = "gpufleet.io/fleet"
STOP: Final = "gpufleet.io/stop"
SAVE_REQUEST: Final = "gpufleet.io/save-request"
NOTICES: Final = "gpufleet.io/notices"
DEVICES_USED: Final = "gpufleet.io/devices-used"
RECLAIMING: Final = "gpufleet.io/reclaiming"
"""Taint of a node that goes away soon."""
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}
_GONE: Final = (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT)
"""Another pod, or none, has that name by now."""
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class OurPod:
    """A pod of our fleet on this node that has not ended."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str]
    leaving: bool

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class NodeApi:
    """Speaks for one node. Raises httpx.HTTPError when the API does not answer."""

    def __init__(self, http: httpx.Client, node: str, fleet: str, namespaces: Iterable[str]) -> None:
        self._http, self._node, self._fleet, self._namespaces = http, node, fleet, tuple(namespaces)

    def pods(self) -> list[OurPod]:
        query = {"fieldSelector": f"spec.nodeName={self._node}", "labelSelector": f"{FLEET}={self._fleet}"}
        found = []
        for namespace in self._namespaces:
            answer = self._http.get(f"/api/v1/namespaces/{namespace}/pods", params=query)
            if answer.status_code not in (httpx.codes.NOT_FOUND, httpx.codes.FORBIDDEN):
                found += [_pod(item) for item in answer.raise_for_status().json()["items"] if not _is_over(item)]
        return found

    def end(self, pods: Iterable[OurPod], why: str, grace: int) -> None:
        """SIGTERM now to all of them at the same time, SIGKILL after `grace` seconds. Why is told first."""
        self._each(pods, lambda pod: self._end(pod, why, grace))

    def _end(self, pod: OurPod, why: str, grace: int) -> None:
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}}
        try:
            self.annotate(pod, {STOP: why})
        finally:  # told or not, it must save now
            _done(self._http.request("DELETE", pod.path, json=options))

    def annotate(self, pod: OurPod, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        _done(self._http.patch(pod.path, json=body, headers=_MERGE))

    def request_saves(self, pods: Iterable[OurPod]) -> None:
        """One more than the newest request, whoever made it."""
        self._each(pods, lambda pod: self.annotate(pod, {SAVE_REQUEST: str(_number(pod) + 1)}))

    def tell(self, notices: str, *, leaving: bool) -> None:
        """On the node: what was heard, and, while it is about to go away, a taint that keeps new pods off.

        Taints are one list that a patch replaces, so those of others are read first and written back as they are; a
        node that changed in between (409) is an error, and the next round tells.
        """
        path = f"/api/v1/nodes/{self._node}"
        node = self._http.get(path).raise_for_status().json()
        taints = [t for t in node.get("spec", {}).get("taints") or [] if t["key"] != RECLAIMING]
        ours = [{"key": RECLAIMING, "effect": "NoSchedule"}] if leaving else []
        version = node["metadata"]["resourceVersion"]
        body = {
            "metadata": {"resourceVersion": version, "annotations": {NOTICES: notices}},
            "spec": {"taints": [*taints, *ours] or None},
        }
        self._http.patch(path, json=body, headers=_MERGE).raise_for_status()

    def _each(self, pods: Iterable[OurPod], act: Any) -> None:
        """All are tried; the first error is raised afterwards."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for result in [pool.submit(act, pod) for pod in pods]:
                result.result()


def _done(answer: httpx.Response) -> None:
    if answer.status_code not in _GONE:
        answer.raise_for_status()


def _pod(raw: Mapping[str, Any]) -> OurPod:
    told = raw["metadata"]
    return OurPod(
        told["namespace"], told["name"], told["uid"], told.get("annotations") or {}, "deletionTimestamp" in told
    )


def _is_over(raw: Mapping[str, Any]) -> bool:
    return raw.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _number(pod: OurPod) -> int:
    text = pod.annotations.get(SAVE_REQUEST, "")
    return int(text) if text.isdecimal() else 0


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> httpx.Client:
    """With the pod's own service account; its token is read anew for each request, for it is renewed."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def sign(request: httpx.Request) -> None:
        request.headers["Authorization"] = f"Bearer {(folder / 'token').read_text().strip()}"

    address = f"[{host}]" if ":" in host else host
    hooks = {"request": [sign]}
    return httpx.Client(base_url=f"https://{address}:{port}", verify=trust, timeout=5.0, event_hooks=hooks)
