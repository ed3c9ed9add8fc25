"""The pods of one node as the API server tells them: listed, then watched, listed again after every break."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from tools.kubernetes.access import Access

WATCH_SECONDS: Final = 60
_BACK_OFF: Final = 0.2
Raw = Mapping[str, Any]


class PodWatch:
    """Calls `changed` with each pod of the node, also with those it knows, and `gone` with the uid of each that left."""

    def __init__(self, access: Access, node: str, changed: Callable[[Raw], None], gone: Callable[[str], None]) -> None:
        self._access, self._node, self._changed, self._gone = access, node, changed, gone
        self._known: set[str] = set()
        self._answer: httpx.Response | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{node}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended, and with it the connection, for which an API server that leaves would wait."""
        self._stopping.set()
        if self._answer is not None:
            with contextlib.suppress(OSError):  # it ended by itself in this moment
                self._answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        with self._access.client() as client:
            while not self._stopping.is_set():
                try:
                    self._follow(client, self._list(client))
                except (httpx.HTTPError, ValueError):  # no answer, or one cut in the middle: from the list again
                    self._stopping.wait(_BACK_OFF)

    def _list(self, client: httpx.Client) -> str:
        answer = client.get("/api/v1/pods", params=self._selector())
        pods = answer.raise_for_status().json()
        seen = {pod["metadata"]["uid"] for pod in pods["items"]}
        for uid in self._known - seen:
            self._forget(uid)
        for pod in pods["items"]:
            self._see(pod)
        return str(pods["metadata"]["resourceVersion"])

    def _follow(self, client: httpx.Client, version: str) -> None:
        params = {**self._selector(), "watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        with client.stream("GET", "/api/v1/pods", params=params) as self._answer:
            self._answer.raise_for_status()
            for line in self._answer.iter_lines():
                if self._stopping.is_set() or not self._hear(json.loads(line)):
                    return

    def _hear(self, event: Raw) -> bool:
        """False when the watch cannot go on (its version is too old)."""
        if event["type"] == "ERROR":
            return False
        if event["type"] == "DELETED":
            self._forget(event["object"]["metadata"]["uid"])
        else:
            self._see(event["object"])
        return True

    def _see(self, pod: Raw) -> None:
        self._known.add(pod["metadata"]["uid"])
        self._changed(pod)

    def _forget(self, uid: str) -> None:
        self._known.discard(uid)
        self._gone(uid)

    def _selector(self) -> dict[str, str]:
        return {"fieldSelector": f"spec.nodeName={self._node}"}
