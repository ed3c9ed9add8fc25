"""What must hold of every plan, checked without a line of the planner: the tests' own referee."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpufleet.model.hardware import MigInstance, MigRemake, NodeState, illegal_layout
from gpufleet.model.plan import Plan
from gpufleet.model.snapshot import PodPlace, Snapshot
from gpufleet.model.workload import Job, Share, Slice, Whole

Cards = dict[tuple[str, int], list[tuple[str, PodPlace]]]


def broken_laws(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Everything wrong with a plan for a snapshot; an empty list for a lawful one."""
    after = outcome(snapshot, plan)
    return [
        *_cards(snapshot, plan, after),
        *_gangs(snapshot, plan),
        *_needs(snapshot, plan),
        *_victims(snapshot, plan),
        *_limits(snapshot, plan, after),
        *_everyone_answered(snapshot, plan),
    ]


def outcome(snapshot: Snapshot, plan: Plan) -> dict[str, list[PodPlace]]:
    """Where every job's pods are when the plan is carried out."""
    moved = {(m.job, p.rank): p for m in plan.moves for p in m.places}
    found: dict[str, list[PodPlace]] = {}
    for run in snapshot.running:
        gone = _gone(run.job.id, run.places, plan)
        found[run.job.id] = [moved.get((run.job.id, p.rank), p) for p in run.places if p.rank not in gone]
    for placement in plan.placements:
        found[placement.job] = list(placement.pods)
    return found


def _gone(name: str, places: Iterable[PodPlace], plan: Plan) -> set[int]:
    mine = [e for e in plan.evictions if e.job == name]
    return {p.rank for p in places for e in mine if e.ranks is None or p.rank in e.ranks}


def _by_card(after: dict[str, list[PodPlace]]) -> Cards:
    cards: Cards = defaultdict(list)
    for name, places in after.items():
        for place in places:
            for gpu in place.devices:
                cards[place.node, gpu].append((name, place))
    return cards


def _cards(snapshot: Snapshot, plan: Plan, after: dict[str, list[PodPlace]]) -> list[str]:
    nodes = {n.name: n for n in snapshot.nodes}
    wrong = []
    exists = _instances(snapshot, plan)
    for (name, gpu), holders in _by_card(after).items():
        label, model = f"{name}/{gpu}", nodes[name].model
        whole = [j for j, p in holders if gpu in p.gpus]
        slices = [s.instance for _, p in holders for s in p.slices if s.gpu == gpu]
        shares = [s for _, p in holders for s in p.shares if s.gpu == gpu]
        if len(whole) > 1 or sum(map(bool, (whole, slices, shares))) > 1:
            wrong.append(f"{label} is given twice: {holders}")
        if why := illegal_layout(model, slices):
            wrong.append(f"{label}: {why}")
        if sum(s.milli for s in shares) > 1000 or sum(s.memory_mib for s in shares) > model.memory_mib:
            wrong.append(f"{label} is oversold")
        if not set(slices) <= exists[name, gpu]:
            wrong.append(f"{label}: {slices} used, {exists[name, gpu]} exist")
        if (whole or shares) and exists[name, gpu]:
            wrong.append(f"{label} is used as a card and still cut into {exists[name, gpu]}")
    return wrong + [f"{k}: {w}" for k, i in exists.items() if (w := illegal_layout(nodes[k[0]].model, i))]


def _instances(snapshot: Snapshot, plan: Plan) -> dict[tuple[str, int], set[MigInstance]]:
    """Instances on every card after the repartitions."""
    found: dict[tuple[str, int], set[MigInstance]] = defaultdict(set)
    for node in snapshot.nodes:
        for device in node.devices:
            found[node.name, device.index] |= set(device.instances)
    for run in snapshot.running:
        for place in run.places:
            for piece in place.slices:
                found[place.node, piece.gpu].add(piece.instance)
    remake = {n.name: n.mig for n in snapshot.nodes}
    for change in plan.repartitions:
        assert remake[change.node] is not MigRemake.NEVER, f"{change.node} is never remade"
        assert set(change.destroy) <= found[change.node, change.gpu], f"{change} destroys what does not exist"
        found[change.node, change.gpu] -= set(change.destroy)
        found[change.node, change.gpu] |= set(change.create)
    return found


def _gangs(snapshot: Snapshot, plan: Plan) -> list[str]:
    jobs = {p.job.id: p.job for p in snapshot.pending}
    wrong = []
    for placement in plan.placements:
        job = jobs[placement.job]
        counts = [sum(1 for p in placement.pods if p.pod_set == i) for i in range(len(job.pod_sets))]
        if len(placement.pods) < job.least_pods or any(n > s.count for n, s in zip(counts, job.pod_sets, strict=True)):
            wrong.append(f"{job.id} is not whole: {counts}")
        if sorted(p.rank for p in placement.pods) != list(range(len(placement.pods))):
            wrong.append(f"{job.id} has odd ranks")
    return wrong


def _needs(snapshot: Snapshot, plan: Plan) -> list[str]:
    nodes = {n.name: n for n in snapshot.nodes}
    jobs = {p.job.id: p for p in snapshot.pending}
    wrong = []
    for placement in plan.placements:
        waiting = jobs[placement.job]
        used = [nodes[p.node] for p in placement.pods]
        if len({n.model.name for n in used}) > 1:
            wrong.append(f"{placement.job} mixes models")
        for node, place in zip(used, placement.pods, strict=True):
            if node.state is not NodeState.READY or node.name in waiting.not_on:
                wrong.append(f"{placement.job} is put on {node.name}, which takes nothing")
            if any(not node.devices[g].healthy for g in place.devices):
                wrong.append(f"{placement.job} is put on a sick GPU")
            if not _serves(waiting.job, place, node.model.profile):
                wrong.append(f"{placement.job}: {place} is not what it asked for")
        level = waiting.job.topology.required
        if level and len({_domain(snapshot, n, level) for n in used}) > 1:
            wrong.append(f"{placement.job} is spread over several of {level}")
    return wrong


def _domain(snapshot: Snapshot, node: object, level: str) -> object:
    if level == "node":
        return node.name  # type: ignore[attr-defined]
    depth = snapshot.levels.index(level) + 1
    position = node.position  # type: ignore[attr-defined]
    return position[:depth] if len(position) >= depth else node.name  # type: ignore[attr-defined]


def _serves(job: Job, place: PodPlace, profile: object) -> bool:
    match job.pod_sets[place.pod_set].demand:
        case Whole(gpus):
            return len(place.gpus) == gpus and not place.slices and not place.shares
        case Share(milli, memory):
            return [s.milli for s in place.shares] == [milli] and place.shares[0].memory_mib >= memory
        case Slice(memory, compute, named):
            given = profile(place.slices[0].instance.profile)  # type: ignore[operator]
            if named is not None:
                return bool(given.name == named)
            return bool(given.memory_mib >= memory and given.compute >= compute)


def _victims(snapshot: Snapshot, plan: Plan) -> list[str]:
    runs = {r.job.id: r for r in snapshot.running}
    floor = {q.name: q.min_runtime for q in snapshot.queues}
    asks = {p.job.id: p.job for p in snapshot.pending}
    wrong = []
    for name in sorted({e.job for e in plan.evictions} | {m.job for m in plan.moves}):
        run = runs[name]
        if not run.job.preemptible or snapshot.at - run.started_at < floor[run.job.queue]:
            wrong.append(f"{name} is protected and disturbed")
        left = len(run.places) - len(_gone(name, run.places, plan))
        if 0 < left < run.job.least_pods:
            wrong.append(f"{name} is left with {left} pods")
    for eviction in plan.evictions:
        taker, owner = asks[eviction.for_job], runs[eviction.job].job
        if taker.queue == owner.queue and owner.priority >= taker.priority:
            wrong.append(f"{owner.id} is not less important than {taker.id}")
        if owner.kind == "inference" and taker.kind != "inference":
            wrong.append(f"training {taker.id} stops a service")
    return wrong


def _limits(snapshot: Snapshot, plan: Plan, after: dict[str, list[PodPlace]]) -> list[str]:
    """No queue that starts something ends above its `*` limit (tests use no deeper trees)."""
    nodes = {n.name: n for n in snapshot.nodes}
    jobs = {j.id: j for j in (*(r.job for r in snapshot.running), *(p.job for p in snapshot.pending))}
    started = {jobs[p.job].queue for p in plan.placements}
    wrong = []
    for queue in snapshot.queues:
        limit = dict(queue.limit).get("*")
        if limit is None or queue.name not in started:
            continue
        grains = sum(_grains(p, nodes[p.node]) for j, ps in after.items() if jobs[j].queue == queue.name for p in ps)
        if grains > limit.grains:
            wrong.append(f"{queue.name} uses {grains}, its limit is {limit.grains}")
    return wrong


def _grains(place: PodPlace, node: object) -> int:
    model = node.model  # type: ignore[attr-defined]
    slices = sum(21_000 * model.profile(s.instance.profile).size // model.memory_slices for s in place.slices)
    return 21_000 * len(place.gpus) + slices + sum(21 * s.milli for s in place.shares)


def _everyone_answered(snapshot: Snapshot, plan: Plan) -> list[str]:
    placed, waiting = {p.job for p in plan.placements}, [w.job for w in plan.waiting]
    wrong = [] if placed | set(waiting) == {p.job.id for p in snapshot.pending} else ["somebody got no answer"]
    if placed & set(waiting) or [w.position for w in plan.waiting] != list(range(1, len(waiting) + 1)):
        wrong.append("the line is not in order")
    return wrong + [f"{w.job} has no detail" for w in plan.waiting if not w.detail]
