"""What the acts of the demo's story share: the fleet, the people, and a way to say that a step did not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpufleet.bootstrap import fleet_from
from gpufleet.sandbox.client import Connection
from gpufleet.services.views import job_view
from tools.demo.airflow_api import AirflowApi
from tools.demo.supervisor import wait_until
from tools.demo.telling import Teller
from tools.demo.up import Embedded


class StoryBroke(Exception):
    """A step did not hold."""


@dataclass
class Story:
    """What the acts share."""

    embedded: Embedded
    tell: Teller
    started: list[float] = field(default_factory=list)
    """Seconds from trigger to every process running, one for each job."""
    resumed: list[float] = field(default_factory=list)
    """Seconds from reclaim notice to training going on, where room was free."""
    runs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = fleet_from(self.embedded.environment)
        (self.cluster,) = self.fleet.clusters.values()
        self.sandbox = Connection(self.embedded.home)
        url = self.embedded.url
        self.ada, self.lin, self.admin = (AirflowApi(url, who) for who in ("ada", "lin", "admin"))

    @property
    def is_sandbox(self) -> bool:
        """Whether the sandbox also runs the pods; its cloud is there in any case."""
        return self.embedded.kind == "sandbox"

    def holds(self, question: Callable[[], bool], seconds: float, sentence: str) -> None:
        if not wait_until(question, seconds):
            raise StoryBroke(f"not within {seconds:g} s: {sentence}")

    def job(self, name: str) -> dict[str, Any]:
        return job_view(self.fleet, name)

    def state(self, name: str) -> str:
        return str(self.job(name)["state"])
