"""A profile's experiments together with what they gave: what tables and charts are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.experiments import Experiment
from benchmarks.results import Outcome
from gpufleet.errors import Invalid


@dataclass(frozen=True, slots=True)
class Known:
    """Results by label; experiments in the order of the list."""

    listed: tuple[Experiment, ...]
    outcomes: Mapping[str, Outcome]
    works: Mapping[str, str] = field(default_factory=dict)
    """What the fleets of a group work on, in words."""

    def result(self, label: str) -> dict[str, Any]:
        """Raises Invalid for what was not measured."""
        if label not in self.outcomes:
            raise Invalid(f"{label} was not measured yet: run `make bench`.")
        return self.outcomes[label].result

    def experiment(self, label: str) -> Experiment:
        return next(e for e in self.listed if e.label == label)

    def groups(self, kind: str) -> list[str]:
        """Workloads of openb, or works of fleets, in the order of the list."""
        return list(dict.fromkeys(e.group for e in self.listed if e.kind == kind))

    def work(self, group: str) -> str:
        """The group's name and what it works on."""
        return ": ".join(filter(None, (group, self.works.get(group))))

    def group(self, kind: str, group: str) -> dict[str, dict[str, Any]]:
        """Results of one group by name."""
        return {e.name: self.result(e.label) for e in self.listed if (e.kind, e.group) == (kind, group)}
