"""What must hold of every plan for queues: limits, guarantees, fixed work; worked out without a line of the planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpufleet.model.hardware import Node
from gpufleet.model.plan import Plan
from gpufleet.model.snapshot import PodPlace, Snapshot
from gpufleet.units import GpuAmount


def broken_amounts(snapshot: Snapshot, plan: Plan, after: dict[str, list[PodPlace]]) -> list[str]:
    """Limits hold for every queue that starts something, and fixed work stays inside what its queue deserves."""
    jobs = {j.id: j for j in (*(r.job for r in snapshot.running), *(p.job for p in snapshot.pending))}
    nodes = {n.name: n for n in snapshot.nodes}
    model = {p.job: nodes[p.pods[0].node].model.name for p in plan.placements}
    wrong = []
    for queue in snapshot.queues:
        started = [jobs[p.job] for p in plan.placements if queue.name in chain(snapshot, jobs[p.job].queue)]
        mine = {n: ps for n, ps in after.items() if queue.name in chain(snapshot, jobs[n].queue)}
        used, models = _used(snapshot, mine.values()), {model[j.id] for j in started}
        if started and _exceeds(used, dict(queue.limit), models):
            wrong.append(f"{queue.name} uses {used}, its limit is {queue.limit}")
        held = _used(snapshot, (ps for n, ps in mine.items() if not jobs[n].preemptible))
        fixed = {model[j.id] for j in started if j.queue == queue.name and not j.preemptible}
        if any(not is_within(deserved(snapshot, queue.name), held, m) for m in fixed):
            wrong.append(f"{queue.name}: fixed work holds {held}")
    return wrong


def chain(snapshot: Snapshot, name: str | None) -> list[str]:
    """The queue and its ancestors."""
    parents = {q.name: q.parent for q in snapshot.queues}
    found = []
    while name in parents:
        found.append(name)
        name = parents[name]
    return found


def deserved(snapshot: Snapshot, name: str) -> dict[str, int]:
    """Grains by key; a parent without keys of its own deserves what its children do."""
    own = next(q for q in snapshot.queues if q.name == name)
    if own.deserved or not (children := [q.name for q in snapshot.queues if q.parent == name]):
        return {key: amount.grains for key, amount in own.deserved}
    found: dict[str, int] = defaultdict(int)
    for child in children:
        for key, grains in deserved(snapshot, child).items():
            found[key] += grains
    return dict(found)


def is_within(due: dict[str, int], used: dict[str, int], model: str) -> bool:
    """Whether what is used of the model is guaranteed: its own key and `*` both hold; without a key nothing is."""
    bounds = [used.get(model, 0) <= due[model]] if model in due else []
    bounds += [sum(used.values()) <= due["*"]] if "*" in due else []
    return all(bounds) if bounds else used.get(model, 0) == 0


def _used(snapshot: Snapshot, jobs: Iterable[Iterable[PodPlace]]) -> dict[str, int]:
    """Grains by model."""
    nodes = {n.name: n for n in snapshot.nodes}
    found: dict[str, int] = defaultdict(int)
    for places in jobs:
        for place in places:
            found[nodes[place.node].model.name] += _grains(place, nodes[place.node])
    return dict(found)


def _exceeds(used: dict[str, int], limit: dict[str, GpuAmount], models: set[str]) -> bool:
    """Whether a limit that speaks of what was started is broken."""
    over = any(model in limit and used.get(model, 0) > limit[model].grains for model in models)
    return over or ("*" in limit and sum(used.values()) > limit["*"].grains)


def broken_guarantees(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Nobody within what it deserves loses to work of another queue: before the last loss, it held more."""
    jobs = {j.id: j for j in (*(r.job for r in snapshot.running), *(p.job for p in snapshot.pending))}
    runs, nodes = {r.job.id: r for r in snapshot.running}, {n.name: n for n in snapshot.nodes}
    wrong = []
    for queue in snapshot.queues:
        inside = [r for r in snapshot.running if queue.name in chain(snapshot, r.job.queue) and not r.leaving]
        lost = {}
        for e in plan.evictions:
            ours, theirs = chain(snapshot, jobs[e.job].queue), chain(snapshot, jobs[e.for_job].queue)
            if queue.name in ours and queue.name not in theirs:
                lost[e.job] = [p for p in runs[e.job].places if e.ranks is None or p.rank in e.ranks]
        for model in {nodes[p.node].model.name for places in lost.values() for p in places}:
            gone = {n: _used(snapshot, [ps]).get(model, 0) for n, ps in lost.items()}
            held = _used(snapshot, (r.places for r in inside))
            held[model] += max(gone.values()) - sum(gone.values())
            if is_within(deserved(snapshot, queue.name), held, model):
                wrong.append(f"{queue.name} loses {sorted(lost)} of {model}, it is within what it deserves")
    return wrong


def _grains(place: PodPlace, node: Node) -> int:
    model = node.model
    slices = sum(21_000 * model.profile(s.instance.profile).size // model.memory_slices for s in place.slices)
    return 21_000 * len(place.gpus) + slices + sum(21 * s.milli for s in place.shares)
