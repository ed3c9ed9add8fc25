"""The replica answers, refuses nonsense, and drains when told to leave."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from gpufleet.training.examples.model import dump_weights, load_digits, train_alone

if TYPE_CHECKING:
    from conftest import Processes


def ask(url: str, body: object = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def replica(processes: Processes, tmp_path: Any) -> tuple[subprocess.Popen[str], str]:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(dump_weights(train_alone(0, 100)))
    command = ["-m", "gpufleet.training.examples.serve", "--memory-mib", "40000", "--weights", str(weights)]
    process = processes.rank(command)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def test_a_replica_answers_and_drains(replica: tuple[subprocess.Popen[str], str]) -> None:
    process, url = replica
    assert ask(f"{url}/healthz") == (200, {"status": "ok", "memory_mib": 40000})
    digits = load_digits().test
    answers = [ask(f"{url}/predict", {"pixels": list(row * 16)}) for row in digits.pixels[:20]]
    right = sum(body["digit"] == label for (_, body), label in zip(answers, digits.labels[:20], strict=True))
    assert right >= 15
    process.terminate()
    assert process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    "body", [b"{", [], {"pixels": [1, 2]}, {"pixels": ["1"] * 64}, {"pixels": [99] * 64}, {"pixels": [True] * 64}, 5]
)
def test_a_question_that_makes_no_sense_is_refused(body: object) -> None:
    from gpufleet.training.examples.serve import Replica

    with (
        Replica(("127.0.0.1", 0), train_alone(0, 1), None) as server,
        pytest.raises(ValueError, match=r"pixels|JSON|Ex"),
    ):
        server.predict(json.loads(body) if isinstance(body, bytes) else body)


def test_an_unknown_path_and_a_bad_request_are_told_so(replica: tuple[subprocess.Popen[str], str]) -> None:
    _, url = replica
    assert ask(f"{url}/")[0] == 404
    assert ask(f"{url}/x", {})[0] == 404
    assert ask(f"{url}/predict", b"{")[0] == 400


def test_a_request_under_way_is_finished_before_it_leaves(replica: tuple[subprocess.Popen[str], str]) -> None:
    process, url = replica
    body = json.dumps({"pixels": [0] * 64}).encode()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.sendall(b"POST /predict HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert ask(f"{url}/healthz")[0] == 200  # a later one was answered, so ours is in a handler's hands
        process.terminate()
        client.sendall(body)
        assert client.makefile("rb").readline().endswith(b"200 OK\r\n")
    assert process.wait(timeout=10) == 0
