"""Whole fleets for tests: a home with config, a real sandbox, a migrated database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpufleet.bootstrap import set_up
from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.services.submit_job import Origin, submit_job
from gpufleet.services.tick import tick
from gpufleet.services.views import job_view
from gpufleet.settings import load_settings
from tests.sandboxes import RunningSandbox, eventually, running_sandbox

DEMO = Path(__file__).parents[1] / "config" / "demo"

SLEEP = "python -c 'import time; time.sleep(600)'"
"""A pod that holds its place and leaves on SIGTERM."""

WORLD: Mapping[str, Any] = {
    "version": 1,
    "levels": ["zone", "leaf"],
    "clock": {"factor": 720},
    "notice": "3s",
    "nodes": [
        {"name": "n{}", "count": 2, "model": "H100-80", "gpus": 8, "position": ["z", "z/l"], "capacity": "reserved",
         "mig": "slice", "region": "east"},
    ],
    "offerings": [],
}  # fmt: skip
"""Two reserved nodes in one leaf: room for one gang of 16."""


@dataclass(frozen=True)
class Played:
    """A fleet and the sandbox under it."""

    fleet: Fleet
    sandbox: RunningSandbox
    environment: dict[str, str]

    def submit(self, who: str = "ada", origin: Origin | None = None, **asked: Any) -> str:
        """Submit with sensible defaults; returns the job's id."""
        team = {"lin": "language", "ops": "platform"}.get(who, "vision")
        project = {"lin": "search", "ops": "operations"}.get(who, "digits")
        request = {"team": team, "project": project, "command": SLEEP, **asked}
        return submit_job(self.fleet, parse_request(request), Principal(who), origin).job

    def tick(self) -> None:
        tick(self.fleet)

    def state(self, job: str) -> str:
        return str(job_view(self.fleet, job)["state"])

    def until(self, job: str, *states: str, within: float = 20.0) -> dict[str, Any]:
        """Tick until the job is in one of these states."""

        def look() -> dict[str, Any] | None:
            self.tick()
            view = job_view(self.fleet, job)
            return view if view["state"] in states else None

        return eventually(look, within=within)


def lay_out_home(home: Path, world: Mapping[str, Any]) -> None:
    """The demo's config with another world."""
    home.mkdir(parents=True, exist_ok=True)
    for name in ("fleet.yaml", "teams.yaml", "rates.yaml"):
        shutil.copyfile(DEMO / name, home / name)
    (home / "world.yaml").write_text(yaml.safe_dump(dict(world)))


@contextmanager
def played(home: Path, world: Mapping[str, Any] = WORLD, *, database_url: str = "") -> Iterator[Played]:
    """A fleet on a sandbox of its own; everything ends with the block."""
    lay_out_home(home, world)
    environment = {"GPUFLEET_HOME": str(home)} | ({"GPUFLEET_DATABASE_URL": database_url} if database_url else {})
    with running_sandbox(home, world) as sandbox:
        fleet = set_up(load_settings(home, environment))
        try:
            yield Played(fleet, sandbox, environment)
        finally:
            fleet.database.dispose()
