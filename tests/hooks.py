"""A web server on loopback that hears what is posted to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hook:
    """Where it listens, what it heard (path, authorization, body), and what it answers."""

    url: str = ""
    heard: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    answers: int = 200


@contextmanager
def listening_hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            hook.heard.append((self.path, self.headers["authorization"], body))
            self.send_response(hook.answers)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """The output is the test's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/hooks/finance"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
