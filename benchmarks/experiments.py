"""The list of experiments (`experiments.yaml`), each with the command line that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gpufleet.errors import Invalid

PROJECT: Final = Path(__file__).parents[1]
LIST: Final = PROJECT / "benchmarks" / "experiments.yaml"
PROFILES: Final = ("full", "quick")
OPENB: Final = (
    "--pods benchmarks/data/openb/openb_pod_list_{0}.csv.gz"
    " --nodes benchmarks/data/openb/openb_node_list_gpu_node.csv"
    " --order benchmarks/data/openb_golden/{0}_pod_order.csv.gz"
    " --ties benchmarks/data/openb_golden/{0}_node_prefix.csv.gz"
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of one door: `words` follow `python -m`, from the project's root."""

    kind: str
    """openb, ceiling, fleet or speed."""
    group: str
    """The workload of an openb run; the work that fleets of one group share."""
    name: str
    words: tuple[str, ...]

    @property
    def label(self) -> str:
        """openb.default.known: how results and figures are called."""
        return ".".join(filter(None, (self.kind, self.group, self.name)))


def experiments(profile: str, path: Path = LIST) -> list[Experiment]:
    """All of a profile, in the order of the file. Raises Invalid for a file that says something else."""
    if profile not in PROFILES:
        raise Invalid(f"profile '{profile}' is not known; known are {', '.join(PROFILES)}.")
    listed = read_yaml(path)
    try:
        found = [
            *_openb(listed["openb"], profile),
            *_fleet(listed["fleet"], profile),
            *_speed(listed["speed"], profile),
        ]
    except (KeyError, TypeError) as why:
        raise Invalid(f"{path.name}: an entry lacks {why}.") from None
    labels = [e.label for e in found]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise Invalid(f"{path.name}: {twice[0]} is there twice.")
    return found


def works(path: Path = LIST) -> dict[str, str]:
    """What the fleets of a group work on, in words."""
    return {work["spec"]: work["about"] for work in read_yaml(path)["fleet"]["works"]}


def read_yaml(path: Path) -> Any:
    """What the file says. Raises Invalid for a file that is not YAML."""
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as why:
        raise Invalid(f"{path.name}: is not YAML: {' '.join(str(why).split())}.") from None


def _openb(listed: dict[str, Any], profile: str) -> Iterator[Experiment]:
    for run in listed["runs"]:
        for workload in _workloads(listed, run, profile):
            words = f"gpufleet simulate openb {OPENB.format(workload)} {run['words']} --seeds {run[profile]} --json"
            yield Experiment("openb", workload, run["name"], tuple(words.split()))
    run = listed["ceiling"]
    for workload in _workloads(listed, run, profile):
        words = f"benchmarks ceiling {OPENB.format(workload)} --seeds {run[profile]}"
        yield Experiment("ceiling", workload, "", tuple(words.split()))


def _workloads(listed: dict[str, Any], run: dict[str, Any], profile: str) -> list[str]:
    """On which the profile has this run."""
    found: list[str] = run.get(f"{profile}_on", listed["workloads"]) if profile in run else []
    return found


def _fleet(listed: dict[str, Any], profile: str) -> Iterator[Experiment]:
    for work in listed["works"]:
        for name in work.get("only", listed["policies"]) if profile in work else ():
            words = listed["policies"][name].format(work["spec"]).replace("--spec ", "--spec benchmarks/specs/")
            words = f"gpufleet simulate fleet {words} --seeds {work[profile]} --json"
            yield Experiment("fleet", work["spec"], name, tuple(words.split()))


def _speed(listed: dict[str, int], profile: str) -> Iterator[Experiment]:
    if profile in listed:
        yield Experiment("speed", "", "", ("benchmarks", "speed", "--repeats", str(listed[profile]), "--json"))
