"""Small servers that play what a node agent speaks to: a cloud's metadata service, the Kubernetes API, a kubelet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grpc

from gpufleet.node_agent.devices import METHOD, messages


class Served(ThreadingHTTPServer):
    """Answers from `answers` (path -> status, text) and remembers what was asked."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.answers: dict[str, tuple[int, str]] = {}
        self.needs: dict[str, str] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.broken = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: pytest shows what matters."""

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def body(self) -> Any:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(raw) if raw else None


class _Metadata(_Handler):
    """As the clouds have it: without the right header there is no answer."""

    def do_PUT(self) -> None:
        self.body()
        self.server.needs["X-aws-ec2-metadata-token"] = f"token-{len(self.server.asked)}"
        self.server.asked.append(("PUT", self.path, None))
        self.reply(200, self.server.needs["X-aws-ec2-metadata-token"])

    def do_GET(self) -> None:
        self.server.asked.append(("GET", self.path, None))
        if self.server.broken:
            self.reply(503, "")
        elif any(self.headers.get(name) != value for name, value in self.server.needs.items()):
            self.reply(401, "")
        else:
            self.reply(*self.server.answers.get(self.path, (404, "not found")))


class _Api(_Handler):
    """Pods and one node, as far as the agent goes."""

    server: Cluster

    def do_GET(self) -> None:
        if "/nodes/" in self.path:
            self._answer(self.server.node)
            return
        query = parse_qs(urlsplit(self.path).query)
        namespace = urlsplit(self.path).path.split("/")[4]
        items = [p for p in self.server.pods.values() if p["metadata"]["namespace"] == namespace]
        wanted = f"{query['labelSelector'][0]} {query['fieldSelector'][0]}"
        mine = [
            p
            for p in items
            if f"gpufleet.io/fleet={p['metadata']['labels']['gpufleet.io/fleet']} spec.nodeName=n0" == wanted
        ]
        self._answer({"items": mine})

    def do_PATCH(self) -> None:
        body, name = self.body(), self.path.rsplit("/", 1)[-1]
        self.server.asked.append(("PATCH", self.path, body))
        if "/nodes/" in self.path:
            self.server.change_node(body)
        elif name in self.server.pods:
            metadata = self.server.pods[name]["metadata"]
            metadata.setdefault("annotations", {}).update(body["metadata"]["annotations"])
        self._answer({})

    def do_DELETE(self) -> None:
        body, name = self.body(), self.path.rsplit("/", 1)[-1]
        self.server.asked.append(("DELETE", self.path, body))
        if name in self.server.pods:
            self.server.pods[name]["metadata"]["deletionTimestamp"] = "now"
        self._answer({})

    def _answer(self, value: Any) -> None:
        self.reply(500, "{}") if self.server.broken else self.reply(200, json.dumps(value))


class Cluster(Served):
    """`pods` by name, and one node with a taint of somebody else's."""

    def __init__(self) -> None:
        super().__init__(_Api)
        self.pods: dict[str, Any] = {}
        self.node: Any = {
            "metadata": {"resourceVersion": "1", "annotations": {}},
            "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        }

    def add(self, name: str, namespace: str = "gpufleet-vision", fleet: str = "main", phase: str = "Running") -> None:
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"gpufleet.io/fleet": fleet}}
        self.pods[name] = {"metadata": metadata, "status": {"phase": phase}}

    def change_node(self, patch: Any) -> None:
        """As the API does: annotations are merged, taints are replaced."""
        assert patch["metadata"]["resourceVersion"] == self.node["metadata"]["resourceVersion"]
        self.node["metadata"]["annotations"].update(patch["metadata"]["annotations"])
        self.node["spec"]["taints"] = patch["spec"]["taints"]

    def taints(self) -> list[str]:
        return [taint["key"] for taint in self.node["spec"]["taints"]]

    def done(self, verb: str) -> list[str]:
        """Names of what was changed by that verb, in the order it was."""
        return [path.rsplit("/", 1)[-1] for how, path, _ in self.asked if how == verb]


@contextmanager
def served(server: Served) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def metadata_service() -> Served:
    return Served(_Metadata)


@contextmanager
def kubelet(socket: Path, pods: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]) -> Iterator[str]:
    """A pod-resources socket: by (namespace, pod), ids of devices by resource."""
    known = messages()

    def answer(_request: Any, _context: Any) -> Any:
        told = known["ListPodResourcesResponse"]()
        for (namespace, name), resources in pods.items():
            container = told.pod_resources.add(name=name, namespace=namespace).containers.add(name="main")
            for resource, ids in resources.items():
                container.devices.add(resource_name=resource, device_ids=list(ids))
        return told

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=known["ListPodResourcesRequest"].FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    service, method = METHOD.strip("/").split("/")
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    try:
        yield f"unix://{socket}"
    finally:
        server.stop(None).wait()
