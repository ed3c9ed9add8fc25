"""Lays out the folder of an embedded fleet: config, Airflow's home, logs."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
USERS = {"admin": "admin", "ada": "user", "vik": "user", "lin": "user", "finn": "viewer", "ops": "op"}
"""Logins of the embedded Airflow and their roles there; the password is the login."""


@dataclass(frozen=True)
class Ports:
    """Loopback ports of one embedded fleet."""

    airflow: int
    worker_logs: int
    trigger_logs: int


def lay_out(home: Path, config: Path, kind: str, *, fresh: bool) -> None:
    """Copy the config for a cluster of that kind into the home; `fresh` begins from nothing."""
    if fresh and home.exists():
        shutil.rmtree(home)
    for folder in (home, home / "logs", home / "airflow", home / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("fleet.yaml", "teams.yaml", "rates.yaml", "world.yaml"):
        if fresh or not (home / name).exists():
            own = config / kind / name
            shutil.copyfile(own if own.exists() else config / name, home / name)
    _write_airflow(home)
    passwords = home / "airflow" / "passwords.json"
    passwords.write_text(json.dumps({user: user for user in USERS}))
    passwords.chmod(0o600)


def environment(home: Path, ports: Ports) -> dict[str, str]:
    """What every process of the embedded fleet runs with: nothing of the caller's Airflow or fleet settings leaks in."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "GPUFLEET_"))}
    bin_ = str(Path(sys.executable).parent)
    return {
        **kept,
        "PATH": os.pathsep.join((str(home / "bin"), bin_, kept.get("PATH", ""))),
        "GPUFLEET_HOME": str(home),
        "GPUFLEET_RENDEZVOUS_KEY": _secret(home, "rendezvous"),
        **airflow_settings(home, ports),
    }


def airflow_settings(home: Path, ports: Ports) -> dict[str, str]:
    """Airflow on SQLite with our DAGs and plugin. The two limits are ours to lift: the defaults would hide our queue."""
    address = f"http://127.0.0.1:{ports.airflow}"
    return {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": _metadata(home, seconds=30),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "10000",
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "10000",
        "AIRFLOW__TRIGGERER__CAPACITY": "10000",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "airflow" / "passwords.json"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(ports.airflow),
        "AIRFLOW__API__INSTANCE_NAME": "gpufleet",
        "AIRFLOW__API__SECRET_KEY": _secret(home, "api"),
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret(home, "jwt"),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports.worker_logs),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports.trigger_logs),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
        # runs begin (and their jobs are in our queue) before the scheduler turns to starting tasks
        "AIRFLOW__SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE": "100",
        "AIRFLOW__SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP": "100",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _metadata(home: Path, seconds: int) -> str:
    """Airflow's SQLite; a writer waits so long for another before it gives up."""
    return f"sqlite:///{home / 'airflow' / 'airflow.db'}?timeout={seconds}"


def _write_airflow(home: Path) -> None:
    """A command `airflow` that gives the api-server less patience with SQLite than everyone else.

    In Airflow 3.3.2 a request that waits for the database can block the very event loop on which the request that holds
    the database would finish: both stand still until the wait is over, seen as stalls of exactly SQLite's timeout.
    With one second they go on soon, and whoever got a 500 asks again; the scheduler, which would die of it, waits long.
    """
    real = Path(sys.executable).parent / "airflow"
    command = home / "bin" / "airflow"
    command.write_text(
        "#!/bin/sh\n"
        f"[ \"$1\" = api-server ] && export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN='{_metadata(home, seconds=1)}'\n"
        f"exec '{real}' \"$@\"\n"
    )
    command.chmod(0o755)


def _secret(home: Path, name: str) -> str:
    """Shared by all components, and kept so that a restart of one is understood by the others."""
    path = home / "airflow" / f"{name}.secret"
    if not path.exists():
        path.write_text(secrets.token_hex(32))
        path.chmod(0o600)
    return path.read_text()
