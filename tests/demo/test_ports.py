"""Ports of the demo: one that is in use is named, the next is tried."""

from __future__ import annotations

import socket

import pytest
from tools.demo.ports import choose, is_free


def test_a_port_in_use_is_named_and_the_next_is_tried() -> None:
    told: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert choose(port, "Airflow", told.append) > port
    assert told[0] == f"port {port} is in use, trying {port + 1} for Airflow"


def test_no_port_at_all_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit, match="no free port for Airflow"):
            choose(taken.getsockname()[1], "Airflow", lambda _: None, tries=1)
