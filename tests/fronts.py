"""A small HTTP server for tests of clouds: it hears requests, may refuse them, and may keep an answer to itself."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Heard:
    """One request. `action` is what the front calls it: an EC2 action, or a method and the last part of a path."""

    action: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def say(status: int, body: Any, **headers: str) -> Said:
    return Said(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})


class KilledHere(BaseException):
    """As a kill -9 would: nothing of ours may catch it."""


@dataclass
class Faults:
    """What goes wrong, by action: answers that take the place of the real one, and answers that get lost on the way."""

    instead: dict[str, list[Said]] = field(default_factory=lambda: defaultdict(list))
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    heard: list[Heard] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def refuse(self, action: str, said: Said, times: int = 1) -> None:
        self.instead[action] += [said] * times

    def lose_answers(self, action: str, times: int = 1) -> None:
        """The request is carried out; the caller hears nothing."""
        self.lost[action] += times

    def heard_of(self, action: str) -> list[Heard]:
        return [one for one in self.heard if one.action == action]

    def clear(self) -> None:
        self.instead.clear()
        self.lost.clear()
        self.heard.clear()


class Front(BaseHTTPRequestHandler):
    """Subclasses name requests and answer them."""

    protocol_version = "HTTP/1.1"
    faults: Faults

    def named(self, method: str, path: str, body: bytes) -> str:
        raise NotImplementedError

    def answered(self, heard: Heard) -> Said:
        raise NotImplementedError

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        action = self.named(self.command, self.path, body)
        heard = Heard(action, self.command, self.path, dict(self.headers.items()), body)
        with self.faults.lock:
            self.faults.heard.append(heard)
            waiting = self.faults.instead[action]
            said = waiting.pop(0) if waiting else self.answered(heard)
            if self.faults.lost[action] > 0:
                self.faults.lost[action] -= 1
                self.close_connection = True
                self.connection.close()
                return
        self._say(said)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815

    def _say(self, said: Said) -> None:
        self.send_response(said.status)
        for key, value in said.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        self.wfile.write(said.body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests print what they need."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a fault closed is no error of the test."""


@contextmanager
def serving(handler: type[Front]) -> Iterator[str]:
    """The URL of a server on a free port of loopback."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def killing(call: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The call with a kill before it, or after it was carried out."""

    def killed(*args: Any, **kwargs: Any) -> Any:
        if after:
            call(*args, **kwargs)
        raise KilledHere

    return killed
