"""`gpufleet simulate`: replays and made-up worlds; progress goes to stderr, one JSON document to stdout."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from gpufleet.commands.fleet_figures import figure_lines, figures, run_figures
from gpufleet.errors import Invalid
from gpufleet.formats.fleet_spec import durations_of, load_spec
from gpufleet.simulation.fleet.metrics import Result, quantile
from gpufleet.simulation.fleet.study import DEFINITIONS, mean_of
from gpufleet.simulation.fleet.study import study as study_fleet
from gpufleet.simulation.openb.fgd import Fgd
from gpufleet.simulation.openb.replay import OURS, Curve
from gpufleet.simulation.openb.rules import BestFit, Chance, DotProduct, GpuClustering, GpuPacking
from gpufleet.simulation.openb.study import Study, own_runs, study
from gpufleet.simulation.openb.trace import Machine, Request, Run, read_machines, read_requests, read_runs

RULES: Final = (Chance, DotProduct, GpuPacking, BestFit, GpuClustering, Fgd)
OUR_DEFINITION: Final = "least rise of the engine's potential -3 V + 0.3 S + 0.12 F, 0.15 F where the mix is learnt"
TIES: Final = "of equal scores the node with the lowest tie rank"


def openb(
    pods: Path,
    nodes: Path,
    policy: str,
    *,
    order: Path | None = None,
    ties: Path | None = None,
    seeds: int = 10,
    stop: float = 1.3,
    moves: float = 0.0,
    mix: str = "known",
    as_json: bool = False,
) -> int:
    """Replay a pod list on a node list under one policy."""
    if mix not in ("known", "learnt"):
        raise Invalid(f"--mix is known or learnt, not '{mix}'.")
    if seeds < 1 or not 0 < stop <= 10 or not 0 <= moves <= 1:
        raise Invalid("--seeds is at least 1, --stop above 0 and at most 10, --moves from 0 to 1.")
    machines, requests = read_machines(nodes), read_requests(pods)
    runs = _runs(machines, requests, order, ties, seeds, stop)
    print(f"{policy}: {len(runs)} seeds, {len(requests)} pods, {len(machines)} nodes", file=sys.stderr)

    def progress(curve: Curve) -> None:
        last = max(curve.allocated, default=0)
        print(
            f"  seed {curve.seed}: {curve.allocated[last]:.3f} % at {last} % of arrivals", file=sys.stderr, flush=True
        )

    found = study(
        policy, machines, requests, runs, Random, stop=stop, moves=moves, known=mix == "known", progress=progress
    )
    files = [f for f in (pods, nodes, order, ties) if f is not None]
    print(json.dumps(_document(found, files, mix), indent=2) if as_json else "\n".join(_lines(found)))
    return 0


def _runs(
    machines: tuple[Machine, ...],
    requests: tuple[Request, ...],
    order: Path | None,
    ties: Path | None,
    seeds: int,
    stop: float,
) -> list[Run]:
    if (order is None) != (ties is None):
        raise Invalid("--order and --ties belong together: give both, or neither for seeded arrivals of our own.")
    if order is None or ties is None:
        return own_runs(machines, requests, seeds, stop, Random)
    return list(read_runs(order, ties, seeds, len(requests), len(machines)))


def _document(found: Study, files: list[Path], mix: str) -> dict[str, Any]:
    return {
        "policy": found.policy,
        "seeds": len(found.curves),
        "mean": {f"{m:g}" if m % 1 else f"{m:.1f}": round(found.mean(m), 4) for m in found.marks},
        "sd": {f"{m:g}" if m % 1 else f"{m:.1f}": round(found.sd(m), 4) for m in found.marks},
        "curve": {str(share): round(value, 4) for share, value in found.curve().items()},
        "runs": [_run(curve, found.marks) for curve in found.curves],
        "definition": _definition(found.policy),
        "ties": TIES,
        "mix": mix if found.policy == OURS else "known",
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }


def _run(curve: Curve, marks: tuple[float, ...]) -> dict[str, Any]:
    at = {f"{m:g}" if m % 1 else f"{m:.1f}": round(curve.at(m) or 0.0, 4) for m in marks}
    return {"seed": curve.seed, **at, "failed_pods": curve.failed}


def _definition(policy: str) -> str:
    return next((rule.definition for rule in RULES if rule.name == policy), OUR_DEFINITION)


def _lines(found: Study) -> list[str]:
    lines = [f"{found.policy}: GPU allocation in % of all GPUs, mean (sd) of {len(found.curves)} seeds"]
    return lines + [f"  {100 * m:4.0f} % of arrivals: {found.mean(m):.3f} ({found.sd(m):.3f})" for m in found.marks]


# ---------------------------------------------------------------- fleet


def fleet(spec: Path, policy: str, *, seeds: int = 10, as_json: bool = False) -> int:
    """Simulate a fleet over several seeds."""
    if seeds < 1:
        raise Invalid("--seeds is at least 1.")
    asked, shown = load_spec(spec), [-1.0]

    def progress(seed: int, part: float) -> None:
        if part - shown[0] >= 0.25 or part < shown[0]:
            shown[0] = part
            print(f"  {policy}: seed {seed}, {100 * part:3.0f} % of the time", file=sys.stderr, flush=True)

    results = study_fleet(asked, policy, range(1, seeds + 1), Random, progress)
    document = _fleet_document(policy, results, [spec, *durations_of(spec)])
    print(json.dumps(document, indent=2) if as_json else "\n".join(_fleet_lines(document)))
    return 0


def _fleet_document(policy: str, results: list[Result], files: list[Path]) -> dict[str, Any]:
    """Waits over all jobs of all seeds; who never started has waited until the last arrival."""
    return {
        "policy": policy,
        "seeds": len(results),
        "seed_list": [r.seed for r in results],
        "effective_throughput": _mean([r.effective_throughput for r in results]),
        "bound": _mean([r.bound for r in results]),
        "useful_utilisation": _mean([r.useful_utilisation for r in results]),
        "oom_kills": sum(r.oom_kills for r in results),
        "wait_seconds": {
            "training": _waits([w for r in results for w in r.training_waits]),
            "inference": _waits([w for r in results for w in r.inference_waits]),
            "largest_gangs": _waits([w for r in results for w in r.big_waits]),
        },
        "evictions": sum(r.evictions for r in results),
        "interruptions": sum(r.interruptions for r in results),
        "moves": sum(r.moves for r in results),
        "lost_gpu_hours": round(sum(r.lost_gpu_hours for r in results), 2),
        "served": round(min(r.served for r in results), 4),
        **figures(results),
        "runs": [
            {"seed": r.seed, "effective_throughput": round(r.effective_throughput, 4), **run_figures(r)}
            for r in results
        ],
        "definition": DEFINITIONS[policy],
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }


def _mean(values: list[float]) -> dict[str, float]:
    found = mean_of(values)
    return {"mean": round(found.mean, 4), "ci95": round(found.ci95, 4)}


def _waits(values: list[float]) -> dict[str, float]:
    return {name: round(quantile(values, part), 1) for name, part in (("p50", 0.5), ("p99", 0.99))}


def _fleet_lines(found: dict[str, Any]) -> list[str]:
    throughput, useful = found["effective_throughput"], found["useful_utilisation"]
    return [
        f"{found['policy']}, {found['seeds']} seeds",
        f"  effective throughput {throughput['mean']:.4f} +- {throughput['ci95']:.4f}",
        f"  bound                {found['bound']['mean']:.4f}",
        f"  useful utilisation   {useful['mean']:.4f} +- {useful['ci95']:.4f}",
        *(f"  wait of {kind}: p50 {w['p50']:.0f} s, p99 {w['p99']:.0f} s" for kind, w in found["wait_seconds"].items()),
        "  mean wait in hours: " + ", ".join(f"{n} GPUs {w['mean']:.1f}" for n, w in found["mean_wait_hours"].items()),
        f"  {found['evictions']} evictions, {found['interruptions']} interruptions, {found['moves']} moves, "
        f"{found['lost_gpu_hours']} GPU-hours lost, "
        f"{found['oom_kills']} memory kills",
        *figure_lines(found),
    ]
