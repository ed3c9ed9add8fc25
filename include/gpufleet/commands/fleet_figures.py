"""What a fleet's results say besides throughput: waits by class, where the time went, bounds, moves, fairness."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpufleet.simulation.fleet.metrics import Result, quantile


def figures(results: Sequence[Result]) -> dict[str, Any]:
    """Means over the seeds; shares of the GPUs' time add up to one."""
    return {
        "mean_wait_hours": _class_waits(results),
        "lost_time": _means([r.losses for r in results]),
        "shares": _means([asdict(r.shares) for r in results]),
        "bounds": _means([asdict(r.bounds) for r in results]),
        "starts": sum(r.starts for r in results),
        "replica_moves": sum(r.replica_moves for r in results),
        "moves_per_start": round(sum(r.moves for r in results) / max(1, sum(r.starts for r in results)), 4),
        "fairness": [round(statistics.fmean(team), 4) for team in zip(*(r.fairness for r in results), strict=True)],
    }


def run_figures(found: Result) -> dict[str, Any]:
    """One seed."""
    return {
        "bound": round(found.bound, 4),
        "useful_utilisation": round(found.useful_utilisation, 4),
        "useful_bound": round(found.bounds.useful, 4),
        "inference_p99_seconds": round(quantile(found.inference_waits, 0.99), 1),
        "served": round(found.served, 4),
    }


def figure_lines(found: dict[str, Any], show: Callable[[float], str] = "{:.3f}".format) -> list[str]:
    """The same for a person."""
    lines = ["  of the GPUs' time: " + ", ".join(f"{name} {show(part)}" for name, part in found["shares"].items())]
    bounds = found["bounds"]
    lines.append(
        f"  at best {show(bounds['useful'])} useful; replicas need {show(bounds['eta'])} of the cards they take"
    )
    if found["fairness"]:
        lines.append("  got / due by team: " + ", ".join(show(part) for part in found["fairness"]))
    return lines


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(statistics.fmean(row[name] for row in rows), 4) for name in rows[0]}


def _class_waits(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """By GPUs asked for: how many jobs, their mean wait and its median, in hours, all seeds together."""
    names = {name: int(name.split("-")[0]) for r in results for name in r.class_waits}
    waits = {
        n: [w / 3600 for r in results for w in r.class_waits.get(n, ())] for n in sorted(names, key=names.__getitem__)
    }
    return {
        name: {"jobs": len(found), "mean": round(statistics.fmean(found), 2), "p50": round(quantile(found, 0.5), 2)}
        for name, found in waits.items()
    }
