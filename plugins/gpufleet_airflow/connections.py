"""Airflow's connections for the fleet: what fleet.yaml names by id is looked up where a task may look."""

from __future__ import annotations

import json


def airflow_connection(name: str) -> str | None:
    """The connection as JSON, from whatever backend has it; None when Airflow knows none of that id."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        found = Connection.get(name)
    except AirflowNotFoundException:
        return None
    return json.dumps({"conn_type": found.conn_type, "extra": found.extra_dejson})
