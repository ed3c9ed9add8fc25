"""The metadata service of the embedded cloud's machines: each asks at an address of its own, and is answered as AWS does."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final

LOOPBACK: Final = "127.0.0.1"


class MetadataService:
    """Instance metadata, version 2: a session token, and the spot notice of a machine once there is one."""

    def __init__(self) -> None:
        self._server = _Server((LOOPBACK, 0), _Handler)
        self._server.deadlines = {}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> MetadataService:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def address_for(self, machine: str) -> str:
        """What 169.254.169.254 is on a real one."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/{machine}"

    def announce(self, machine: str, deadline: datetime) -> None:
        """The machine will be taken back then."""
        self._server.deadlines[machine] = deadline


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    deadlines: dict[str, datetime]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_PUT(self) -> None:
        self._answer(200, b"token") if self.path.endswith("/latest/api/token") else self._answer(404, b"")

    def do_GET(self) -> None:
        machine, _, path = self.path.lstrip("/").partition("/")
        deadline = self.server.deadlines.get(machine)
        if path != "latest/meta-data/spot/instance-action" or deadline is None:
            return self._answer(404, b"")
        said = {"action": "terminate", "time": f"{deadline.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        return self._answer(200, json.dumps(said).encode())

    def log_message(self, format: str, *args: object) -> None:
        """A line a second for each machine says nothing."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
