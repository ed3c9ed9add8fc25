"""The kubelet's door through which the API server reads logs: HTTPS, and only for who has a certificate of the plane."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from gpufleet.sandbox.environment import LOOPBACK
from tools.kubernetes.certificates import Pair

FindLog = Callable[[str, str], Path | None]
"""Namespace and name of a pod -> its log, None when it never started here."""
_UNKNOWN: Final = {"follow", "previous", "sinceSeconds", "sinceTime", "timestamps"}


class LogDoor:
    """Serves `/containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines` and `limitBytes`; asks for more are refused."""

    def __init__(self, pair: Pair, clients: Path, find: FindLog) -> None:
        self._server = _Server((LOOPBACK, 0), _Handler)
        self._server.find = find
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
        # the handshake waits for the handler's own thread, so that a silent caller holds up nobody else
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    find: FindLog

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller without a certificate, or one that went away: its own trouble."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        door, _, rest = url.path.lstrip("/").partition("/")
        place = rest.split("/")
        if door != "containerLogs" or len(place) != 3:
            return self._answer(404, b"this kubelet has logs only\n")
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if unknown := sorted(name for name in asked.keys() & _UNKNOWN if asked[name] != "false"):
            return self._answer(400, f"this kubelet does not know {', '.join(unknown)}\n".encode())
        log = self.server.find(place[0], place[1])
        if log is None:
            text = f'container "{place[2]}" in pod "{place[1]}" is waiting to start: ContainerCreating\n'
            return self._answer(400, text.encode())
        return self._answer(200, tail_of(log.read_bytes(), asked))

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads a line per request."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def tail_of(text: bytes, asked: dict[str, str]) -> bytes:
    """The last `tailLines` lines, of those the first `limitBytes` bytes, as kubelets do it."""
    if "tailLines" in asked:
        lines = text.splitlines(keepends=True)
        text = b"".join(lines[max(0, len(lines) - int(asked["tailLines"])) :])
    return text[: int(asked["limitBytes"])] if "limitBytes" in asked else text
