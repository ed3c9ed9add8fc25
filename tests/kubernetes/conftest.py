"""Every test here talks to a real API server: the marker says so, and `make ci` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.planes import namespace
from tools.kubernetes.plane import ControlPlane


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture
def client(control_plane: ControlPlane) -> Iterator[httpx.Client]:
    with control_plane.client() as found:
        yield found


@pytest.fixture
def place(client: httpx.Client) -> Iterator[str]:
    """A namespace of this test alone."""
    with namespace(client) as name:
        yield name
