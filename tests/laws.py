"""What must hold of every plan, checked without a line of the planner: the tests' own referee."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from gpufleet.model.hardware import MigInstance, MigRemake, Node, NodeState, illegal_layout
from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, PodPlace, Running, Snapshot
from gpufleet.model.workload import Job, Share, Slice, Whole
from tests.laws_of_queues import broken_amounts, broken_guarantees

DEFAULT = SchedulingPolicy()
Cards = dict[tuple[str, int], list[tuple[str, PodPlace]]]


def broken_laws(snapshot: Snapshot, plan: Plan, policy: SchedulingPolicy = DEFAULT) -> list[str]:
    """Everything wrong with a plan for a snapshot; an empty list for a lawful one."""
    after = outcome(snapshot, plan)
    return [
        *_cards(snapshot, plan, after),
        *_gangs(snapshot, plan),
        *_needs(snapshot, plan),
        *_hosts(snapshot, plan, after),
        *_victims(snapshot, plan, policy),
        *_moves(snapshot, plan, policy),
        *_waits(snapshot, plan),
        *broken_amounts(snapshot, plan, after),
        *broken_guarantees(snapshot, plan),
        *_everyone_answered(snapshot, plan),
    ]


def outcome(snapshot: Snapshot, plan: Plan) -> dict[str, list[PodPlace]]:
    """Where every job's pods are when the plan is carried out; who is leaving has left."""
    moved = {(m.job, p.rank): p for m in plan.moves for p in m.places}
    found: dict[str, list[PodPlace]] = {}
    for run in (r for r in snapshot.running if not r.leaving):
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
    nodes = {n.name: n for n in snapshot.nodes}
    for change in plan.repartitions:
        assert (why := _may_not_remake(snapshot, plan, nodes[change.node], change.gpu)) is None, why
        assert set(change.destroy) <= found[change.node, change.gpu], f"{change} destroys what does not exist"
        found[change.node, change.gpu] -= set(change.destroy)
        found[change.node, change.gpu] |= set(change.create)
    return found


def _may_not_remake(snapshot: Snapshot, plan: Plan, node: Node, gpu: int) -> str | None:
    """Who runs there before and after the plan stands in the way, where the node remakes only what is empty."""
    after = outcome(snapshot, replace(plan, placements=()))
    stay = [
        (p, g) for r in snapshot.running if not r.leaving for p in after[r.job.id] if p in r.places for g in p.devices
    ]
    match node.mig:
        case MigRemake.NEVER:
            return f"{node.name} is never remade"
        case MigRemake.EMPTY_GPU if any((p.node, g) == (node.name, gpu) for p, g in stay):
            return f"{node.name}/{gpu} is remade beside running work"
        case MigRemake.EMPTY_NODE if any(p.node == node.name for p, _ in stay):
            return f"{node.name} is remade while something runs there"
    return None


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
        models = {n.model.name for n in used}
        if (len(models) > 1 and not waiting.job.mix_models) or len({n.cluster for n in used}) > 1:
            wrong.append(f"{placement.job} mixes models or clusters")
        for node, place in zip(used, placement.pods, strict=True):
            if not _welcomes(node, waiting, place):
                wrong.append(f"{placement.job} is put on {node.name}, which does not take it")
            if any(not node.devices[g].healthy for g in place.devices):
                wrong.append(f"{placement.job} is put on a sick GPU")
            if not _serves(waiting.job, place, node.model.profile):
                wrong.append(f"{placement.job}: {place} is not what it asked for")
        level = waiting.job.topology.required
        if level and len({_domain(snapshot, n, level) for n in used}) > 1:
            wrong.append(f"{placement.job} is spread over several of {level}")
    return wrong


def _welcomes(node: Node, waiting: Pending, place: PodPlace) -> bool:
    job, model = waiting.job, node.model
    return (
        node.state is NodeState.READY
        and node.name not in waiting.not_on
        and (not job.models or model.name in job.models)
        and (not job.capacity or node.capacity in job.capacity)
        and model.memory_mib >= job.needs.memory_mib
        and model.compute_capability >= job.needs.compute_capability
        and (node.sharing or not place.shares)
    )


def _hosts(snapshot: Snapshot, plan: Plan, after: dict[str, list[PodPlace]]) -> list[str]:
    """No node that takes someone has more asked of its host than it has."""
    wrong = []
    for node in snapshot.nodes:
        places = [p for ps in after.values() for p in ps if p.node == node.name]
        news = [p for x in plan.placements for p in x.pods if p.node == node.name and (p.cpu or p.memory_mib)]
        cpu, memory = sum(p.cpu or 0 for p in places), sum(p.memory_mib or 0 for p in places)
        if news and ((node.cpu is not None and cpu > node.cpu) or (node.memory_mib or memory) < memory):
            wrong.append(f"{node.name} has too little host for {cpu} cores and {memory} MiB")
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


def _victims(snapshot: Snapshot, plan: Plan, policy: SchedulingPolicy) -> list[str]:
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
        if taker.queue == owner.queue and not _gives_way(snapshot, runs[eviction.job], taker, policy):
            wrong.append(f"{owner.id} is not less important than {taker.id}")
        if owner.kind == "inference" and taker.kind != "inference":
            wrong.append(f"training {taker.id} stops a service")
    return wrong


def _gives_way(snapshot: Snapshot, run: Running, taker: Job, policy: SchedulingPolicy) -> bool:
    """Lower priorities do; equal ones to a big gang, where net gain is on, that asked first and costs them little."""
    if run.job.priority != taker.priority or not policy.net_gain_horizon:
        return run.job.priority < taker.priority
    elder = run.job.submitted_at <= taker.submitted_at and policy.net_gain_seniority
    has_run = snapshot.at - run.started_at >= timedelta(hours=2)
    saved = run.last_checkpoint_at is not None and snapshot.at - run.last_checkpoint_at <= timedelta(hours=1)
    asked = sum(s.count * s.demand.gpus for s in taker.pod_sets if isinstance(s.demand, Whole))
    return not elder and has_run and saved and asked > max(8, sum(len(p.gpus) for p in run.places))


def _waits(snapshot: Snapshot, plan: Plan) -> list[str]:
    """A placement names everyone whose card it takes, and nobody who stays."""
    left: dict[str, list[PodPlace]] = {r.job.id: list(r.places) for r in snapshot.running if r.leaving}
    runs = {r.job.id: r for r in snapshot.running}
    for e in plan.evictions:
        left.setdefault(e.job, []).extend(p for p in runs[e.job].places if e.ranks is None or p.rank in e.ranks)
    for move in plan.moves:
        ranks = {p.rank for p in move.places}
        left.setdefault(move.job, []).extend(p for p in runs[move.job].places if p.rank in ranks)
    wrong = []
    for placement in plan.placements:
        whole = {(p.node, g) for p in placement.pods for g in p.gpus}
        for job, places in left.items():
            if job not in placement.after and any((p.node, g) in whole for p in places for g in p.devices):
                wrong.append(f"{placement.job} takes a card of {job} and does not wait for it")
        if stays := set(placement.after) - set(left):
            wrong.append(f"{placement.job} waits for {stays}, who stay")
    return wrong


def _may_move(snapshot: Snapshot, run: Running, policy: SchedulingPolicy) -> bool:
    """Who has saved lately; a service only where the policy says after how long."""
    if run.job.kind == "inference":
        return timedelta(0) < policy.move_services <= snapshot.at - run.started_at
    return snapshot.at - (run.last_checkpoint_at or run.started_at) <= policy.fresh_checkpoint


def _moves(snapshot: Snapshot, plan: Plan, policy: SchedulingPolicy) -> list[str]:
    """Who moves gets what it had, on the same model, has saved lately, and is still near where it must be."""
    runs, nodes = {r.job.id: r for r in snapshot.running}, {n.name: n for n in snapshot.nodes}
    after = outcome(snapshot, plan)
    wrong = [] if sum(len(m.places) for m in plan.moves) <= policy.moves_per_pass else ["too many pods move"]
    for move in plan.moves:
        run = runs[move.job]
        old = {p.rank: p for p in run.places}
        for place, source in zip(move.places, move.sources, strict=True):
            before = old[place.rank]
            same_model = nodes[place.node].model == nodes[before.node].model
            if before.node != source or not same_model or _what(before) != _what(place):
                wrong.append(f"{move.job} is moved to something else: {before} -> {place}")
        if any(_same_spot(old[p.rank], p) for p in move.places):
            wrong.append(f"{move.job} is moved to where it is")
        if not _may_move(snapshot, run, policy):
            wrong.append(f"{move.job} may not be moved now")
        level = run.job.topology.required
        if level and len({_domain(snapshot, nodes[p.node], level) for p in after[move.job]}) > 1:
            wrong.append(f"{move.job} is moved out of its {level}")
    return wrong


def _what(place: PodPlace) -> object:
    slices = sorted(s.instance.profile for s in place.slices)
    return len(place.gpus), slices, sorted((s.milli, s.memory_mib) for s in place.shares), place.cpu, place.memory_mib


def _everyone_answered(snapshot: Snapshot, plan: Plan) -> list[str]:
    placed, waiting = {p.job for p in plan.placements}, [w.job for w in plan.waiting]
    wrong = [] if placed | set(waiting) == {p.job.id for p in snapshot.pending} else ["somebody got no answer"]
    if placed & set(waiting) or [w.position for w in plan.waiting] != list(range(1, len(waiting) + 1)):
        wrong.append("the line is not in order")
    return wrong + [f"{w.job} has no detail" for w in plan.waiting if not w.detail]


def _same_spot(old: PodPlace, new: PodPlace) -> bool:
    return (old.node, old.gpus, old.slices, old.shares) == (new.node, new.gpus, new.slices, new.shares)
