"""A plan and an explanation as lines for a person; no colours, so they read the same in a log."""

from __future__ import annotations

from gpufleet.formats.plan import hours
from gpufleet.model.plan import Plan
from gpufleet.model.snapshot import PodPlace
from gpufleet.scheduling.explain import Explanation


def plan_lines(plan: Plan) -> list[str]:
    """What happens, then who waits and why."""
    lines = [f"start {p.job} on {_places(p.pods)}{_after(p.after)}" for p in plan.placements]
    lines += [
        f"stop {_pods(e.ranks)}{e.job} for {e.for_job} ({e.why}, {hours(e.lost_gpu_hours)} GPU-hours lost)"
        for e in plan.evictions
    ]
    lines += [f"move {m.job} for {m.for_job} to {_places(m.places)}" for m in plan.moves]
    lines += [
        f"remake GPU {r.gpu} of {r.node}:" + "".join(f" -{i}" for i in r.destroy) + "".join(f" +{i}" for i in r.create)
        for r in plan.repartitions
    ]
    lines += [f"{w.position}. {w.job} waits ({w.reason}): {w.detail}; {w.unblock}" for w in plan.waiting]
    return lines or ["nothing to do, nothing waits"]


def _places(places: tuple[PodPlace, ...]) -> str:
    return ", ".join(f"{p.node}{list(p.devices)}" for p in places)


def _after(jobs: tuple[str, ...]) -> str:
    return f" after {', '.join(jobs)}" if jobs else ""


def _pods(ranks: tuple[int, ...] | None) -> str:
    return "" if ranks is None else f"pods {', '.join(map(str, ranks))} of "


def explanation_lines(found: Explanation) -> list[str]:
    """State, reason, levels, what would help."""
    if found.state != "pending":
        return [f"{found.job} {found.detail}"]
    lines = [f"{found.job} waits, place {found.position} ({found.queue_position} in its queue)"]
    lines.append(f"reason: {found.reason}: {found.detail}")
    lines += [f"{a.level}: {a.best} of {a.needed} pods fit in the best of {a.domains}" for a in found.levels]
    return [*lines, f"what would help: {found.unblock}"]
