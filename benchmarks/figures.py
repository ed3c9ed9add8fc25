"""Figures with names, out of results: what `ranges.yaml` bounds and what the pages tell."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from benchmarks.experiments import Experiment
from benchmarks.paired import Paired, differences, gains
from benchmarks.published import mean_curve, published
from benchmarks.results import Outcome

OURS: Final = ("known", "learnt")
"""Names of our own runs in openb: the mix to come told, or learnt from the arrivals."""
PEER: Final = "fgd"
"""The published rule that ours is compared with, seed by seed."""
MARKS: Final = {100: "1.0", 130: "1.3"}
"""Percent of arrivals, and the key of a result."""


def figures(listed: Iterable[Experiment], outcomes: Mapping[str, Outcome]) -> dict[str, float]:
    """Every figure by name, of what was measured."""
    found: dict[str, float] = {}
    there = [(e, outcomes[e.label].result) for e in listed if e.label in outcomes]
    for experiment, result in there:
        match experiment.kind:
            case "openb":
                found |= _named(
                    experiment.label, _openb(experiment, result, outcomes.get(f"ceiling.{experiment.group}"))
                )
            case "ceiling":
                found |= _named(experiment.label, {"mean": result["mean"]})
            case "fleet":
                others = {e.name: r for e, r in there if (e.kind, e.group) == ("fleet", experiment.group)}
                found |= _named(experiment.label, _fleet(result, others))
            case "speed":
                found |= _named(experiment.label, _speed(result))
    return found


def _named(label: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{label}.{name}": value for name, value in values.items()}


def _openb(experiment: Experiment, result: dict[str, Any], top: Outcome | None) -> dict[str, float]:
    """Published rules by their distance to the table, ours by the gain over FGD and the distance to the ceiling."""
    found = {f"mean_{mark}": result["mean"][key] for mark, key in MARKS.items()}
    if experiment.name not in OURS:
        return {**found, "off_published": off_published(experiment, result)}
    for mark in MARKS:
        gain = openb_gain(experiment.group, result, mark)
        found |= {f"gain_{mark}": gain.mean, f"gain_{mark}_least": gain.least}
    if experiment.name == "known" and top is not None:
        below = below_ceiling(result, top.result)
        found |= {"below_ceiling": below.mean, "below_ceiling_least": below.least}
    return found


def below_ceiling(result: dict[str, Any], top: dict[str, Any]) -> Paired:
    """The ceiling minus ours in points at 130 %, by seed: never below 0."""
    return differences(by_seed(top, "ceiling"), by_seed(result, "1.3"))


def by_seed(result: dict[str, Any], key: str) -> dict[int, float]:
    """One figure of each run."""
    return {run["seed"]: run[key] for run in result["runs"]}


def openb_gain(workload: str, result: dict[str, Any], mark: int) -> Paired:
    """Ours minus the published FGD in percentage points, at a share of arrivals, by seed."""
    ours = by_seed(result, MARKS[mark])
    return differences(ours, {seed: published(workload, PEER, seed)[mark] for seed in ours})


def off_published(experiment: Experiment, result: dict[str, Any]) -> float:
    """Points between our replay and the table, both as the mean over the same seeds: the worst column.

    Random draws from the published simulator's own generator, which cannot be replayed: there only the last column counts.
    """
    expected = mean_curve(experiment.group, experiment.name, by_seed(result, "1.3"))
    curve: dict[int, float] = {int(share): value for share, value in result["curve"].items()}
    columns = [max(expected)] if experiment.name == "random" else list(expected)
    return max(abs(curve[c] - expected[c]) for c in columns)


def throughput(result: dict[str, Any]) -> dict[int, float]:
    """Effective throughput by seed."""
    return by_seed(result, "effective_throughput")


def is_ours(result: dict[str, Any]) -> bool:
    return bool(result["policy"] == "gpufleet")


def _fleet(result: dict[str, Any], group: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Ours is also told as a gain in percent over each baseline of its group, by seed."""
    found = {
        "effective_throughput": result["effective_throughput"]["mean"],
        "useful_utilisation": result["useful_utilisation"]["mean"],
        "oom_kills": float(result["oom_kills"]),
    }
    if is_ours(result):
        rivals = {name: r for name, r in group.items() if not is_ours(r)}
        found |= {f"gain_over.{name}": gains(throughput(result), throughput(r)).mean for name, r in rivals.items()}
    if wait := replica_wait(result):
        found["inference_wait_p99"] = wait
    if bound := part_of_bound(result):
        found["part_of_bound"] = bound
    return found


def replica_wait(result: dict[str, Any]) -> float:
    """p99 in seconds; 0 where nobody waited, or nothing served."""
    return float(result["wait_seconds"].get("inference", {}).get("p99", 0))


def part_of_bound(result: dict[str, Any]) -> float | None:
    """Effective throughput over what the work could give at all, where the simulator says it."""
    bound = bound_of(result)
    return float(result["effective_throughput"]["mean"]) / bound if bound else None


def bound_of(result: dict[str, Any]) -> float | None:
    """The bound of any schedule: a number, or the mean over seeds."""
    bound: Any = result.get("bound")
    value: float | None = bound["mean"] if isinstance(bound, dict) else bound
    return value


def _speed(result: dict[str, Any]) -> dict[str, float]:
    """Multiples of the fixed work; what eight times the nodes cost; memory."""
    times = {timed["name"]: timed["times"] for timed in result["figures"]}
    wide = times["decision_9704_nodes"] / times["decision_1213_nodes"]
    return {**times, "eight_times_the_nodes": wide, "memory_mib": result["memory_mib"]}


def machine_speed(outcomes: Iterable[Outcome]) -> tuple[float, float, float]:
    """Least, median and greatest seconds of the fixed work before each experiment."""
    units = sorted(o.fixed_work for o in outcomes)
    return units[0], statistics.median(units), units[-1]
