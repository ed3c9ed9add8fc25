"""The few places of the API that are asked, and the bodies that are sent there, encoded once."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote, urlencode

from gpufleet.clusters.kubernetes.api import APPLY, JSON, MERGE, ONLY_METADATA, Ask
from gpufleet.clusters.kubernetes.rendering import names

PODS: Final = "/api/v1/pods"
SERVICES: Final = "/api/v1/services"
NODES: Final = "/api/v1/nodes"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
VERSION: Final = "/version"
_MANAGED: Final = urlencode({"fieldManager": names.FIELD_MANAGER})


def namespace(name: str) -> str:
    return f"/api/v1/namespaces/{quote(name, safe='')}"


def pods_in(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def claims_in(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims"


def services_in(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/services"


KINDS: Final = {
    "Service": "services",
    "ResourceClaim": "resourceclaims",
    "PodGroup": "podgroups",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
}
"""What we make or keep in step beside pods, and how its folder is called."""


def folder_of(body: Any, namespace: str) -> str:
    """The folder of an object of one of `KINDS`."""
    api, kind = body["apiVersion"], KINDS[body["kind"]]
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{kind}"


def encoded(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def create(path: str, body: Any) -> Ask:
    """The answer is the new object's metadata alone."""
    return Ask("POST", f"{path}?{_MANAGED}", encoded(body), accept=ONLY_METADATA)


def get(path: str, **query: str) -> Ask:
    return Ask("GET", f"{path}?{urlencode(query)}" if query else path)


def apply(body: Any) -> Ask:
    """Server-side apply of what is ours in a namespace: the fields in `body` are as it says, whoever wrote them before."""
    metadata = body["metadata"]
    path = f"{folder_of(body, metadata['namespace'])}/{quote(metadata['name'], safe='')}"
    return Ask("PATCH", f"{path}?{_MANAGED}&force=true", encoded(body), APPLY, accept=ONLY_METADATA)


def merge(path: str, body: Any, *, only_metadata: bool = False) -> Ask:
    """Changes what the body names. With `metadata.uid` in it, only that very object (409 for a namesake)."""
    accept = ONLY_METADATA if only_metadata else JSON
    return Ask("PATCH", f"{path}?{_MANAGED}", encoded(body), MERGE, accept=accept)


def delete(path: str, *, uid: str = "", grace: int | None = None) -> Ask:
    """`grace` in whole seconds; 0 waits for no kubelet. Only the object of that uid, when one is given."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return Ask("DELETE", path, encoded(options))


def let_go(path: str, raw: Any) -> Ask:
    """Take off that very pod the finalizers that keep it."""
    metadata = raw["metadata"]
    others = [name for name in metadata.get("finalizers") or () if name not in names.LET_GO]
    return merge(path, {"metadata": {"uid": metadata["uid"], "finalizers": others}})


def attempt_selector(fleet: str, job: str, attempt: int) -> str:
    """Selects every object of one attempt."""
    wanted = {
        names.FLEET: names.label_value(fleet),
        names.JOB: names.label_value(job),
        names.ATTEMPT: str(attempt),
    }
    return ",".join(f"{key}={value}" for key, value in wanted.items())
