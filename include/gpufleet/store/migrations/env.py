"""Alembic's entry: runs inside the connection and transaction that `store.migrate` holds."""

from __future__ import annotations

from alembic import context

from gpufleet.store.migrate import VERSION_TABLE
from gpufleet.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
    user_module_prefix="",
)
context.run_migrations()
