"""The connection: SQLite for one machine, PostgreSQL for production, the same transactions on both.

SQLite: WAL, a busy timeout, and writers that take the write lock at once (`BEGIN IMMEDIATE`), so two writers queue
instead of failing at commit. PostgreSQL: reads in REPEATABLE READ, writes guarded by the fleet row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError

from gpufleet.errors import Invalid, Temporary

BUSY_SECONDS = 20.0
"""How long a SQLite writer waits for another: far above any write of ours, so it is reached only when one hangs."""


class Database:
    """One engine, with the two kinds of transaction the services use."""

    def __init__(self, url: str, *, patience: float = BUSY_SECONDS) -> None:
        """`patience`: seconds a caller waits for the database before it is told that it does not answer."""
        self.url = _checked(url)
        self.engine = _engine(self.url, patience)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view of everything, for the length of the block."""
        with self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with _told(), connection.begin():
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A short transaction; commits at the end of the block, or leaves nothing."""
        with _told(), self.engine.connect() as connection, connection.begin():
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def dispose(self) -> None:
        self.engine.dispose()


def _checked(url: str) -> str:
    if url.startswith(("sqlite:///", "postgresql+psycopg://")):
        return url
    if url.startswith("postgresql://"):
        return url.replace("postgresql://", "postgresql+psycopg://", 1)
    raise Invalid(f"GPUFLEET_DATABASE_URL '{url.split('://')[0]}://...' is not sqlite:///FILE or postgresql://...")


@contextmanager
def _told() -> Iterator[None]:
    """Says in our words that the database does not answer; everything else passes as it is."""
    try:
        yield
    except OperationalError as e:
        raise Temporary(f"the database does not answer: {str(e.orig).strip().splitlines()[0]}", retry_after=2) from e
    except DBAPIError as e:
        if e.connection_invalidated:
            raise Temporary("the connection to the database was lost", retry_after=2) from e
        raise


def _engine(url: str, patience: float) -> Engine:
    if not url.startswith("sqlite"):
        waits = {"connect_timeout": max(1, round(patience)), "options": f"-c lock_timeout={round(patience * 1000)}"}
        return create_engine(url, pool_size=5, max_overflow=10, pool_pre_ping=True, connect_args=waits)
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": patience})

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver would begin too late, and DEFERRED
        for pragma in (
            "journal_mode=WAL",
            f"busy_timeout={round(patience * 1000)}",
            "foreign_keys=ON",
            "synchronous=NORMAL",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def advisory_key(name: str) -> int:
    """A stable 63-bit number for PostgreSQL advisory locks."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1
