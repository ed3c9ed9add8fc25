"""Brings a database to this version's tables: our own Alembic chain, never Airflow's."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from gpufleet.errors import Permanent
from gpufleet.store.database import Database, advisory_key

VERSION_TABLE = "gpufleet_alembic_version"


def config() -> Config:
    """Alembic's settings, pointed at the packaged migrations."""
    alembic = Config()
    alembic.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return alembic


def migrate(database: Database) -> None:
    """Upgrade to the newest version; several processes may call it at once."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": advisory_key("gpufleet-migrate")})
        alembic = config()
        alembic.attributes["connection"] = connection
        command.upgrade(alembic, "head")
        connection.commit()


def require_migrated(connection: Connection) -> None:
    """Raises Permanent with the command to run when the tables are not there."""
    if not inspect(connection).has_table(VERSION_TABLE):
        raise Permanent("The database has no gpufleet tables; run 'gpufleet doctor --migrate' or 'make up' first.")
