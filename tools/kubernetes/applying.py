"""`kubectl apply` for what `gpufleet kubernetes manifests` prints: server-side, in the order given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx

_PLURALS: Final = {
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "DeviceClass": "deviceclasses",
}
_CLUSTER_WIDE: Final = (
    "Namespace",
    "PriorityClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "DeviceClass",
    "Node",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_KIND: Final = {"Content-Type": "application/apply-patch+yaml"}


def apply(client: httpx.Client, objects: Iterable[Mapping[str, Any]], manager: str = "platform") -> None:
    """Raises httpx.HTTPStatusError, with the API's own words as a note, at the first that is refused."""
    for one in objects:
        answer = client.patch(
            path_of(one), params={"fieldManager": manager, "force": "true"}, content=json.dumps(one), headers=_KIND
        )
        try:
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            error.add_note(answer.text)
            raise


def path_of(one: Mapping[str, Any]) -> str:
    """Where the API keeps an object of that kind and name."""
    group, kind, metadata = one["apiVersion"], one["kind"], one["metadata"]
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    place = "" if kind in _CLUSTER_WIDE else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{place}/{plural}/{metadata['name']}"
