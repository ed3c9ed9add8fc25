"""A plan and an explanation as lines for a person; no colours, so they read the same in a log."""

from __future__ import annotations

from gpufleet.formats.plan import hours
from gpufleet.model.hardware import MigRemake
from gpufleet.model.plan import Eviction, Move, Plan, Repartition
from gpufleet.model.snapshot import PodPlace
from gpufleet.scheduling.explain import Explanation


def plan_lines(plan: Plan) -> list[str]:
    """What happens, then who waits and why."""
    lines = [f"start {p.job} on {places(p.pods)}{after(p.after)}" for p in plan.placements]
    lines += [stop(e) for e in plan.evictions]
    lines += [move(m) for m in plan.moves]
    lines += [
        f"remake GPU {r.gpu} of {r.node}:{''.join(f' -{i}' for i in r.destroy)}{''.join(f' +{i}' for i in r.create)}"
        f" ({_cost(r)})"
        for r in plan.repartitions
    ]
    lines += [f"{w.position}. {w.job} waits ({w.reason}): {w.detail}; {w.unblock}" for w in plan.waiting]
    return lines or ["nothing to do, nothing waits"]


def _cost(change: Repartition) -> str:
    """How long, and what goes on meanwhile."""
    beside = f"beside {change.keeps} that stay" if change.by is MigRemake.SLICE else f"the {change.by.value} drained"
    return f"about {change.seconds:g} s, {beside}"


def places(pods: tuple[PodPlace, ...]) -> str:
    """Nodes and devices of pods."""
    return ", ".join(f"{p.node}{list(p.devices)}" for p in pods)


def after(jobs: tuple[str, ...]) -> str:
    """Whom a start waits for."""
    return f" after {', '.join(jobs)}" if jobs else ""


def stop(entry: Eviction) -> str:
    """Who is stopped, for whom, and what is lost."""
    return f"stop {_ranks(entry.ranks)}{entry.job} for {entry.for_job} ({entry.why}, {_lost(entry)})"


def move(entry: Move) -> str:
    """Who goes where, for whom."""
    return f"move {entry.job} for {entry.for_job} to {places(entry.places)}"


def _lost(entry: Eviction) -> str:
    return f"{hours(entry.lost_gpu_hours)} GPU-hours lost"


def _ranks(ranks: tuple[int, ...] | None) -> str:
    return "" if ranks is None else f"pods {', '.join(map(str, ranks))} of "


def explanation_lines(found: Explanation) -> list[str]:
    """State, reason, levels, what would help."""
    if found.state != "pending":
        return [f"{found.job} {found.detail}"]
    lines = [f"{found.job} waits, place {found.position} ({found.queue_position} in its queue)"]
    lines.append(f"reason: {found.reason}: {found.detail}")
    lines += [f"{'ok ' if c.ok else 'NO '} {c.level}: {c.detail}" for c in found.checks]
    lines += [f"{a.level}: {a.best} of {a.needed} pods fit in the best of {a.domains}" for a in found.levels]
    lines.append(f"what would help: {found.unblock}")
    lines += [f"or: {o.detail}" for o in found.options if o.detail != found.unblock]
    return [*lines, f"not all was tried: {found.cut}"] if found.cut else lines
