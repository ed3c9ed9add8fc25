"""One embedded fleet with a real Airflow for all tests here; it starts in about a quarter of a minute."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.sandboxes import eventually
from tools.demo.airflow_api import AirflowApi
from tools.demo.home import PROJECT
from tools.demo.up import Embedded, bring_up

from gpufleet.bootstrap import fleet_from
from gpufleet.services.fleet import Fleet
from gpufleet.services.views import job_view, jobs_view

SLEEP = "python -c 'import time; time.sleep(600)'"
TRAIN = "python -m gpufleet.training.examples.digits --steps 200 --seed 5 --step-seconds 0.05"


@dataclass
class Living:
    """The embedded fleet and people logged in to its Airflow."""

    embedded: Embedded
    fleet: Fleet
    people: dict[str, AirflowApi]

    def trigger(self, who: str = "ada", **asked: Any) -> str:
        """Trigger gpu_job; returns the run's id."""
        team, project = ("language", "search") if who == "lin" else ("vision", "digits")
        conf = {"team": team, "project": project, "command": SLEEP, "gpus": 1, **asked}
        return self.people[who].trigger("gpu_job", conf)

    def job(self, name: str) -> dict[str, Any] | None:
        known = [j["job"] for j in jobs_view(self.fleet, limit=1000) if j["name"] == name]
        return job_view(self.fleet, known[0]) if known else None

    def until(self, name: str, *states: str, within: float = 60.0) -> dict[str, Any]:
        """Wait until the job of that name is in one of these states; nobody here ticks."""

        def look() -> dict[str, Any] | None:
            found = self.job(name)
            return found if found and found["state"] in states else None

        return eventually(look, within=within)

    def component(self, name: str) -> list[psutil.Process]:
        """The processes of one component of Airflow, the parent first."""
        found = []
        for child in self.embedded.supervisor.children.values():
            for process in child.family():
                if f"airflow {name}" in _words(process):
                    found.append(process)
        return found


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""  # it ended since we listed it


@pytest.fixture(scope="session")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    home = tmp_path_factory.mktemp("living")
    config = home / "config"
    shutil.copytree(PROJECT / "config" / "demo", config)
    _widen(config / "world.yaml")
    _ask_above(config / "fleet.yaml", 60)
    embedded = bring_up(home / "fleet", config, fresh=True)
    try:
        people = {who: AirflowApi(embedded.url, who) for who in ("ada", "vik", "lin", "admin", "finn")}
        eventually(lambda: "gpu_job" in people["admin"].dag_ids(), within=60)
        yield Living(embedded, fleet_from(embedded.environment), people)
    finally:
        embedded.stop()


def _widen(path: Path) -> None:
    """The demo's world with two more reserved nodes, so tests do not wait for each other."""
    world = yaml.safe_load(path.read_text())
    world["nodes"][0]["count"] = 3
    path.write_text(yaml.safe_dump(world))


def _ask_above(path: Path, hourly: int) -> None:
    """Purchases above this wait for a person: two on-demand machines do, all spot machines of the world do not."""
    fleet = yaml.safe_load(path.read_text())
    fleet["buying"]["approve_above"] = hourly
    path.write_text(yaml.safe_dump(fleet))
