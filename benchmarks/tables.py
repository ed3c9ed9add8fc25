"""Results as Markdown tables: what stands between the markers of docs/benchmarks.md and README.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from benchmarks.figures import (
    OURS,
    PEER,
    below_ceiling,
    is_ours,
    machine_speed,
    off_published,
    openb_gain,
    part_of_bound,
    replica_wait,
    throughput,
)
from benchmarks.goals import goals
from benchmarks.known import Known
from benchmarks.paired import Paired, gains
from benchmarks.published import NAMES, mean_curve

HOUR: Final = 3600.0


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def openb(known: Known) -> str:
    """Ours beside FGD on every workload, told the mix and learning it."""
    head = ["workload", "mix", "ours at 130 % (sd)", "at 100 %", "FGD at 130 / 100 %", "gain at 130 %", "gain at 100 %"]
    return table(head, (_openb_row(known, workload, name) for workload in known.groups("openb") for name in OURS))


def _openb_row(known: Known, workload: str, name: str) -> list[str]:
    result = known.result(f"openb.{workload}.{name}")
    mean, sd = result["mean"], result["sd"]["1.3"]
    expected = mean_curve(workload, PEER, [run["seed"] for run in result["runs"]])
    fgd = f"{expected[130]:.2f} / {expected[100]:.2f}"
    gains_told = [_gain(openb_gain(workload, result, mark)) for mark in (130, 100)]
    return [workload, name, f"{mean['1.3']:.3f} ({sd:.3f})", f"{mean['1.0']:.3f}", fgd, *gains_told]


def ceilings(known: Known) -> str:
    """What any rule could give out that accepts what ours accepts until its first refusal, and how far ours is below."""
    rows = []
    for workload in known.groups("ceiling"):
        top, ours = known.result(f"ceiling.{workload}"), known.result(f"openb.{workload}.known")
        below, refusal = below_ceiling(ours, top), statistics.fmean(run["first_refusal"] for run in top["runs"])
        cells = (
            f"{top['mean']:.3f}",
            f"{ours['mean']['1.3']:.3f}",
            f"{below.mean:.3f} ({below.least:.3f})",
            f"{refusal:.2f}",
        )
        rows.append([workload, *cells])
    head = [
        "workload",
        "ceiling at 130 %",
        "ours",
        "ours is below it by (least)",
        "ours first refuses at, % of arrivals",
    ]
    return table(head, rows)


def _gain(gain: Paired) -> str:
    return f"{gain.mean:+.3f} +- {gain.ci95:.3f} ({gain.least:+.3f})"


def rules(known: Known) -> str:
    """Our replays of the published rules: mean at 130 %, and how far the worst column is from the table."""
    workloads = known.groups("openb")
    rows = ([rule, *(_rule_cell(known, f"openb.{workload}.{rule}") for workload in workloads)] for rule in NAMES)
    return table(["rule", *workloads], rows)


def _rule_cell(known: Known, label: str) -> str:
    """A dash where it was not measured yet."""
    if label not in known.outcomes:
        return "-"
    result = known.result(label)
    return f"{result['mean']['1.3']:.2f} ({off_published(known.experiment(label), result):.3f})"


def speed(known: Known) -> str:
    """Processor seconds, and multiples of the fixed work."""
    found = known.result("speed")["figures"]
    rows = ([WORDS.get(f["name"], f["name"]), time_of(f["seconds"]), f"{f['times']:.3g}"] for f in found)
    return table(["figure", "processor time", "x fixed work"], rows)


def time_of(seconds: float) -> str:
    """Three figures of seconds or milliseconds."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


WORDS: Final = {
    "decision_1213_nodes": "one decision, openb default, 1,213 nodes",
    "decision_9704_nodes": "one decision, the same eight times over, 9,704 nodes",
    "slice_decision_10000_gpus": "one MIG slice on 10,000 GPUs",
    "gang_declared_unschedulable": "an 80-GPU gang on 500 nodes declared unschedulable, with its reason: added to a pass",
    "pass_10000_gpus_10000_jobs": "a pass over 10,000 GPUs, half of them busy, 10,000 waiting jobs, 200 queues",
    "reclaim_for_256_gpus": "reclaim for a 256-GPU gang, 4,060 running jobs, the whole pass",
}
"""Figures of speed.py in words."""


def fleets(known: Known) -> str:
    """One table for every group of fleet experiments."""
    return "\n\n".join(f"**{known.work(group)}**\n\n{_fleet(known, group)}" for group in known.groups("fleet"))


def _fleet(known: Known, group: str) -> str:
    results = known.group("fleet", group)
    columns = [c for c in COLUMNS if any(c[1](r) for r in results.values())]
    ours = [r for r in results.values() if is_ours(r)]
    head = ["policy", "seeds", *(name for name, _ in columns), *(["ours in pairs"] if ours else [])]
    rows = (
        [name, str(r["seeds"]), *(cell(r) or "-" for _, cell in columns), *(_lead(mine, r) for mine in ours[:1])]
        for name, r in results.items()
    )
    return table(head, rows)


def _lead(ours: dict[str, Any], other: dict[str, Any]) -> str:
    """What ours gains on it by seed, in percent of effective throughput."""
    if is_ours(other):
        return ""
    gain = gains(throughput(ours), throughput(other))
    return f"{gain.mean:+.1f} +- {gain.ci95:.1f} % ({gain.least:+.1f})"


def _mean(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda r: f"{r[key]['mean']:.3f} +- {r[key]['ci95']:.3f}"


def _wait(kind: str, hours: bool) -> Callable[[dict[str, Any]], str]:
    """p50 / p99 of a class, empty where nobody waited."""

    def cell(result: dict[str, Any]) -> str:
        waits = result["wait_seconds"].get(kind, {"p50": 0, "p99": 0})
        unit = HOUR if hours else 1.0
        return f"{waits['p50'] / unit:.1f} / {waits['p99'] / unit:.1f}" if waits["p99"] else ""

    return cell


def _bound(result: dict[str, Any]) -> str:
    part = part_of_bound(result)
    return f"{100 * part:.1f} %" if part else ""


def _by_class(result: dict[str, Any]) -> str:
    """Mean wait of every class of training."""
    return ", ".join(f"{gpus}: {wait['mean']:.1f}" for gpus, wait in result.get("mean_wait_hours", {}).items())


def _useful_bound(result: dict[str, Any]) -> str:
    """Only where services run."""
    return f"{result['bounds']['useful']:.3f}" if replica_wait(result) and "bounds" in result else ""


def _fairness(result: dict[str, Any]) -> str:
    return ", ".join(f"{part:.2f}" for part in result.get("fairness", ()))


def _count(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda r: f"{r[key]:,.0f}" if r.get(key) else ""


COLUMNS: Final[tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = (
    ("effective throughput", _mean("effective_throughput")),
    ("of the bound", _bound),
    ("useful utilisation", _mean("useful_utilisation")),
    ("wait of training, h, p50 / p99", _wait("training", True)),
    ("of the largest gangs, h", _wait("largest_gangs", True)),
    ("of replicas, s", _wait("inference", False)),
    ("mean wait, h, by GPUs", _by_class),
    ("useful at most", _useful_bound),
    ("got / due, by team", _fairness),
    ("evictions", _count("evictions")),
    ("moves", _count("moves")),
    ("GPU-hours lost", _count("lost_gpu_hours")),
    ("memory kills", _count("oom_kills")),
)
"""Shown where any policy of the group has something to show."""


def goals_met(known: Known) -> str:
    """What was set out for, and what came of it."""
    rows = ([g.what, g.goal, g.measured, g.most or "-", "yes" if g.reached else "**no**"] for g in goals(known))
    return table(["figure", "goal", "measured", "most possible", "reached"], rows)


def measured(known: Known) -> str:
    """When, on how fast a machine, of which program."""
    days = sorted({o.day for o in known.outcomes.values()})
    least, middle, most = machine_speed(known.outcomes.values())
    total = sum(o.seconds for o in known.outcomes.values())
    count = " of ".join(str(n) for n in dict.fromkeys((len(known.outcomes), len(known.listed))))
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{count} experiments, measured {when} in {total / 60:.0f} processor minutes. The fixed piece of work\n"
        f"(benchmarks/speed.py) took {middle:.3f} s in the middle, {least:.3f} to {most:.3f} s: so fast was the machine."
    )


def words(known: Known) -> dict[str, str]:
    """Single figures that stand in running text."""
    seconds = {timed["name"]: timed["seconds"] for timed in known.result("speed")["figures"]}
    told = known.result("openb.default.known")
    expected = mean_curve("default", PEER, [run["seed"] for run in told["runs"]])
    leads = [openb_gain(w, known.result(f"openb.{w}.known"), 130).least for w in known.groups("openb")]
    return {
        "default-ours": f"{told['mean']['1.3']:.2f} %",
        "default-fgd": f"{expected[130]:.2f} %",
        "least-gain": f"{min(leads):+.2f}",
        "pass-seconds": f"{seconds['pass_10000_gpus_10000_jobs']:.1f} s",
        "reclaim-seconds": f"{seconds['reclaim_for_256_gpus']:.1f} s",
    }
