"""Small things that tests on a real control plane share: namespaces of their own, pods, nodes that are ready."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from tools.kubernetes.nodes import Raw, add_nodes, is_ready

from tests.sandboxes import eventually

IMAGE = "example.com/none:1"
"""Never pulled: nobody here runs images."""
_numbers = itertools.count()


def unique(word: str) -> str:
    return f"{word}-{next(_numbers)}"


@contextmanager
def namespace(client: httpx.Client) -> Iterator[str]:
    """A namespace of one test; afterwards it is being deleted, with all that is in it."""
    name = unique("test")
    client.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    eventually(lambda: client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").is_success)
    yield name
    client.delete(f"/api/v1/namespaces/{name}").raise_for_status()


@contextmanager
def ready_nodes(client: httpx.Client, nodes: Sequence[Raw]) -> Iterator[list[str]]:
    """These nodes, ready for pods; afterwards they are gone."""
    names = [node["metadata"]["name"] for node in nodes]
    add_nodes(client, nodes)
    try:
        for name in names:
            eventually(lambda name=name: is_ready(client.get(f"/api/v1/nodes/{name}").json()))
        yield names
    finally:
        for name in names:
            client.delete(f"/api/v1/nodes/{name}")


def pod(name: str, node: str | None = None, *, gpus: int = 0, command: Sequence[str] = ("true",), **spec: Any) -> Raw:
    """A pod pinned to a node by affinity on its name, so that the scheduler keeps its say."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "main", "image": IMAGE, "command": list(command), "resources": {"limits": limits}}
    pinned = {"affinity": {"nodeAffinity": _only(node)}} if node else {}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container], **pinned, **spec}}


def _only(node: str) -> Raw:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def create(client: httpx.Client, namespace: str, pod: Raw) -> Raw:
    answer = client.post(f"/api/v1/namespaces/{namespace}/pods", json=pod)
    assert answer.is_success, answer.text
    made: Raw = answer.json()
    return made


def look(client: httpx.Client, namespace: str, name: str) -> Raw:
    """The pod now; {} when it is gone."""
    answer = client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    found: Raw = {} if answer.status_code == httpx.codes.NOT_FOUND else answer.raise_for_status().json()
    return found


def until(client: httpx.Client, namespace: str, name: str, true: Callable[[Raw], Any]) -> Raw:
    """The pod, once `true` of it."""
    return eventually(lambda: (lambda found: found if true(found) else None)(look(client, namespace, name)))


def phase(*wanted: str) -> Callable[[Raw], bool]:
    return lambda found: found["status"]["phase"] in wanted
