"""Brings the embedded fleet up: sandbox, database, controller, Airflow."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from tools.demo import ports
from tools.demo.home import PROJECT, Ports, environment, lay_out
from tools.demo.supervisor import PYTHON, Child, Supervisor, end, strays, wait_until

AIRFLOW_SECONDS = 180
"""It needs about 15 on an idle machine; a busy one is no reason to give up."""


@dataclass
class Embedded:
    """A running embedded fleet."""

    home: Path
    environment: dict[str, str]
    supervisor: Supervisor
    url: str
    kind: str
    """Of its cluster: `sandbox` or `kubernetes`."""

    def stop(self) -> None:
        self.supervisor.stop()
        end(strays(self.home))
        for name in ("sandbox.json", "portal.url", "kubernetes/kubeconfig"):
            (self.home / name).unlink(missing_ok=True)


def choose_ports(tell: Callable[[str], None]) -> Ports:
    airflow = ports.choose(8080, "Airflow", tell)
    worker = ports.choose(8793, "the worker's logs", tell)
    return Ports(airflow, worker, ports.choose(worker + 1, "the triggerer's logs", tell))


def bring_up(
    home: Path, config: Path, kind: str = "sandbox", *, fresh: bool, tell: Callable[[str], None] = print
) -> Embedded:
    """Start everything and wait until it answers; raises SystemExit that names the log to read."""
    lay_out(home, config, kind, fresh=fresh)
    chosen = choose_ports(tell)
    env = environment(home, chosen)
    url = f"http://127.0.0.1:{chosen.airflow}"
    supervisor = Supervisor(tell)
    embedded = Embedded(home, env, supervisor, url, kind)
    (home / "portal.url").write_text(f"{url}/gpufleet/\n")
    try:
        _start(embedded, tell)
    except BaseException:
        embedded.stop()
        raise
    return embedded


def _start(embedded: Embedded, tell: Callable[[str], None]) -> None:
    home, supervisor = embedded.home, embedded.supervisor
    supervisor.add(_child(embedded, "airflow", ["airflow", "standalone"], signal.SIGINT))
    tell("airflow standalone is starting")
    world = ["-m", "gpufleet.sandbox", "--home", str(home), "--world", str(home / "world.yaml"), "--stop-pods"]
    supervisor.add(_child(embedded, "sandbox", [PYTHON, *world], signal.SIGTERM))
    _set_up_database(embedded)
    if not wait_until((home / "sandbox.json").exists, 30):
        raise SystemExit(f"the sandbox did not start; see {home / 'logs' / 'sandbox.log'}")
    if embedded.kind == "kubernetes":
        _start_kubernetes(embedded, tell)
    supervisor.add(
        _child(embedded, "controller", [PYTHON, "-m", "gpufleet", "controller", "--every", "0.5"], signal.SIGTERM)
    )
    tell("sandbox and controller are up")
    if not wait_until(lambda: _healthy(embedded), AIRFLOW_SECONDS, every=0.25):
        raise SystemExit(f"Airflow did not come up in {AIRFLOW_SECONDS} s; see {home / 'logs' / 'airflow.log'}")
    tell(f"Airflow is up at {embedded.url}")
    supervisor.watch(lambda name: _child(embedded, name, ["airflow", name], signal.SIGTERM))


def _start_kubernetes(embedded: Embedded, tell: Callable[[str], None]) -> None:
    # children stand in the fleet's home, and `tools` is no installed package
    command = ["env", f"PYTHONPATH={PROJECT}", PYTHON, "-m", "tools.demo.kubernetes", str(embedded.home)]
    child = _child(embedded, "kubernetes", command, signal.SIGTERM)
    embedded.supervisor.add(child)
    there = embedded.home / "kubernetes" / "kubeconfig"
    if not wait_until(lambda: there.exists() or not child.is_up, 90) or not child.is_up:
        raise SystemExit(f"Kubernetes did not start; see {embedded.home / 'logs' / 'kubernetes.log'}")
    tell(f"Kubernetes is up: KUBECONFIG={there}")


def _child(embedded: Embedded, name: str, command: list[str], stop_with: int) -> Child:
    return Child(name, command, embedded.environment, embedded.home / "logs" / f"{name}.log", stop_with=stop_with)


def _set_up_database(embedded: Embedded) -> None:
    from gpufleet.bootstrap import set_up
    from gpufleet.settings import load_settings

    set_up(load_settings(embedded.home, embedded.environment)).database.dispose()


def _healthy(embedded: Embedded) -> bool:
    if not embedded.supervisor.children["airflow"].is_up:
        raise SystemExit(f"Airflow ended while starting; see {embedded.home / 'logs' / 'airflow.log'}")
    try:
        health = httpx.get(f"{embedded.url}/api/v2/monitor/health", timeout=5).json()
    except (httpx.HTTPError, ValueError):
        return False
    return all(
        (health.get(part) or {}).get("status") == "healthy" for part in ("scheduler", "triggerer", "dag_processor")
    )
