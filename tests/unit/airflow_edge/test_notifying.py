"""How a night went reaches people: a real mail server and a real web server hear of it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.hooks import Hook, listening_hook

PUBLISHED = {
    "day": "2026-03-10",
    "total": "184.00",
    "currency": "USD",
    "charges": 3,
    "published": "period=2026-03/x",
    "to": "exports",
}
KEPT = {"alerts": [{"team": "vision", "per_cent": 80}], "corrections": 2, "closed": ["2026-02"]}


class Task:
    """What a callback is given of a task."""

    task_id = "check"
    log_url = "http://airflow.example/log"

    def xcom_pull(self, *, task_ids: str) -> Any:
        return {"publish": PUBLISHED, "books": KEPT}[task_ids]


def context(**more: Any) -> dict[str, Any]:
    return {"ti": Task(), "dag_run": SimpleNamespace(partition_key="2026-03-10"), "params": {"day": None}, **more}


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Tell of a night. Airflow makes folders where it lives as soon as it is imported: not in somebody's home."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from gpufleet_airflow.notifying import NightNotifier

    def told(*, failed: bool = False, **more: Any) -> None:
        NightNotifier(failed=failed)(context(**more))

    return told


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    with listening_hook() as found:
        where = {"conn_type": "http", "host": found.url, "password": "s3cret"}
        monkeypatch.setenv("AIRFLOW_CONN_GPUFLEET_WEBHOOK", json.dumps(where))
        yield found


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The mails that a server on loopback was given."""
    found: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve_mail, args=(listening, found), daemon=True).start()
    extra = {"from_email": "gpufleet@example.com", "to": "finance@example.com", "disable_ssl": True,
             "disable_tls": True}  # fmt: skip
    where = {"conn_type": "smtp", "host": "127.0.0.1", "port": listening.getsockname()[1], "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GPUFLEET_MAIL", json.dumps(where))
    yield found
    listening.close()


def _serve_mail(listening: socket.socket, found: list[bytes]) -> None:
    """As much of SMTP as a client needs to hand over one mail."""
    connection, _ = listening.accept()
    with connection, connection.makefile("rb") as heard:
        connection.sendall(b"220 mail.example\r\n")
        for line in heard:
            word = line[:4].upper()
            if word == b"DATA":
                connection.sendall(b"354 go on\r\n")
                found.append(b"".join(iter(heard.readline, b".\r\n")))
            connection.sendall(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


def test_a_webhook_hears_of_a_published_night_and_of_budgets(hook: Hook, tell: Callable[..., None]) -> None:
    tell()
    ((path, token, told),) = hook.heard
    assert (path, token) == ("/hooks/finance", "Bearer s3cret")
    assert told["event"] == "night-published" and told["total"] == "184.00" and told["closed"] == ["2026-02"]
    assert told["text"].endswith("USD 184.00 this month; vision passed 80 % of its budget")


def test_a_failed_night_is_told_with_its_reason(hook: Hook, tell: Callable[..., None]) -> None:
    tell(failed=True, exception=ValueError("2026-03-10 is not published: a sum is off"))
    ((_, _, told),) = hook.heard
    assert (told["event"], told["day"], told["task"]) == ("night-failed", "2026-03-10", "check")
    assert told["why"] == "2026-03-10 is not published: a sum is off"
    assert told["url"] == "http://airflow.example/log"


def test_a_mail_says_the_same(mailbox: list[bytes], tell: Callable[..., None]) -> None:
    tell(failed=True, exception=ValueError("a <sum> is off"))
    (raw,) = mailbox
    mail = message_from_bytes(raw)
    assert mail["Subject"] == "gpufleet: The night of 2026-03-10 was not published: check failed"
    assert mail["To"] == "finance@example.com"
    text = next(part for part in mail.walk() if part.get_content_type() == "text/html").get_payload(decode=True)
    assert isinstance(text, bytes) and b"a &lt;sum&gt; is off" in text


def test_what_cannot_be_told_fails_nothing(hook: Hook, tell: Callable[..., None]) -> None:
    hook.answers = 500
    tell()
    assert len(hook.heard) == 1


def test_without_a_connection_nothing_is_told(tell: Callable[..., None]) -> None:
    tell()
