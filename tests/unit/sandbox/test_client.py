"""The thin clients: when nobody answers, when the door has moved, and how errors come across."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.errors import Forbidden, GpufleetError, Invalid, NoCapacity, NotFound, Permanent, Refused, Temporary
from gpufleet.sandbox import client
from gpufleet.sandbox.door import DOOR_FILE, Door, error_of, kind_of, remove_door, write_door


class _Answers(BaseHTTPRequestHandler):
    """Says what the test put on its server."""

    def do_GET(self) -> None:
        said = self.server.said  # type: ignore[attr-defined]
        self.server.tokens.append(self.headers["Authorization"])  # type: ignore[attr-defined]
        status, body = said.pop(0) if len(said) > 1 else said[0]
        if status == 0:
            self.server.silence.wait(5)  # type: ignore[attr-defined]
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not to the test's output."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *said: tuple[int, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.said, self.silence = list(said), threading.Event()
        self.tokens: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def servers() -> Iterator[list[_Server]]:
    servers: list[_Server] = []
    yield servers
    for server in servers:
        server.silence.set()
        server.shutdown()
        server.server_close()


OBSERVED = json.dumps(
    {
        "at": "2026-03-01T12:00:00+00:00",
        "cluster_time": "2026-03-01T00:00:00+00:00",
        "levels": ["zone"],
        "nodes": [],
        "pods": [],
        "notices": [],
    }
).encode()


def test_without_a_door_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Temporary, match=f"No sandbox answers in {tmp_path}; start one with"):
        SandboxCluster(tmp_path).observe()


def test_a_torn_door_is_no_door(tmp_path: Path) -> None:
    (tmp_path / DOOR_FILE).write_text('{"url": "http')
    with pytest.raises(Temporary):
        SandboxCluster(tmp_path).observe()


def test_a_closed_port_is_temporary(tmp_path: Path) -> None:
    write_door(tmp_path, Door("http://127.0.0.1:1", "t", 1))
    with pytest.raises(Temporary, match="does not answer"):
        SandboxCluster(tmp_path).observe()


def test_a_silent_server_is_temporary(tmp_path: Path, servers: list[_Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.1)
    servers.append(_Server((0, b"")))
    write_door(tmp_path, Door(servers[0].url, "t", 1))
    with pytest.raises(Temporary, match="did not answer in time"):
        SandboxCluster(tmp_path).observe()


def test_the_door_is_read_again_when_it_has_moved(tmp_path: Path, servers: list[_Server]) -> None:
    servers += [_Server((200, OBSERVED)), _Server((200, OBSERVED))]
    cluster = SandboxCluster(tmp_path, "here")
    write_door(tmp_path, Door(servers[0].url, "old", 1))
    cluster.observe()
    servers[0].shutdown()
    servers[0].server_close()
    write_door(tmp_path, Door(servers[1].url, "new", 2))
    assert cluster.observe().cluster == "here"
    assert servers[1].tokens == ["Bearer new"]


def test_a_door_with_a_new_lock_is_read_again(tmp_path: Path, servers: list[_Server]) -> None:
    servers.append(_Server((401, b"{}"), (200, OBSERVED)))
    write_door(tmp_path, Door(servers[0].url, "t", 1))
    assert SandboxCluster(tmp_path).observe().levels == ("zone",)


def test_an_answer_without_a_reason_is_temporary(tmp_path: Path, servers: list[_Server]) -> None:
    servers.append(_Server((502, b"<html>")))
    write_door(tmp_path, Door(servers[0].url, "t", 1))
    with pytest.raises(Temporary, match="answered 502 without a reason"):
        SandboxCluster(tmp_path).observe()


@pytest.mark.parametrize("kind", [Refused, NoCapacity, NotFound, Invalid, Forbidden, Temporary, Permanent])
def test_errors_keep_their_kind_and_words(kind: type[GpufleetError]) -> None:
    word, _ = kind_of(kind("So it is."))
    back = error_of(word, "So it is.")
    assert (type(back), str(back)) == (kind, "So it is.")


def test_a_door_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_door(tmp_path, Door("u", "t", 1))
    assert (tmp_path / DOOR_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [DOOR_FILE]


def test_a_successors_door_stays(tmp_path: Path) -> None:
    write_door(tmp_path, Door("u", "t", 2))
    remove_door(tmp_path, 1)
    assert (tmp_path / DOOR_FILE).exists()
    remove_door(tmp_path, 2)
    assert not (tmp_path / DOOR_FILE).exists()
