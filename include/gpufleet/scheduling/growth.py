"""More for everybody: nodes that somebody pays for, quotas that somebody raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.hardware import Device, GpuModel, MigRemake, Node
from gpufleet.model.plan import Fit
from gpufleet.model.snapshot import Pending
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.model.workload import Job, Whole
from gpufleet.placement.demand import capacity
from gpufleet.placement.filters import verdict
from gpufleet.scheduling.session import Nodes, Session
from gpufleet.scheduling.trial import Option, Proof, Trial
from gpufleet.scheduling.what_if import Change
from gpufleet.units import GpuAmount

MOST_NODES: Final = 64
"""More nodes than so many are not thought of."""
MOST_KINDS: Final = 2
"""Kinds of nodes that are tried, the most common of the fleet first."""
NEW: Final = "new"
"""Names of nodes and domains that are not there begin so."""
USUAL_GPUS: Final = 8
"""GPUs of a node of a model that the fleet has not."""


# ---------------------------------------------------------------- nodes


def more_nodes(trial: Trial, proof: Proof) -> Iterator[Option]:
    """The fewest nodes of each kind that would place the job; where a pass says they are too few, twice as many."""
    name = NEW
    while any(taken.startswith(name) for taken in trial.session.nodes):
        name += "-"
    for kind in _kinds(trial)[:MOST_KINDS]:
        nodes = [replace(kind, name=f"{name}-{i}") for i in range(MOST_NODES)]
        session = trial.with_nodes(nodes)
        count = _fewest(trial, session, [n.name for n in nodes])
        if count is not None and (found := proof.first(_nodes(trial, kind, nodes, count))):
            yield found


def _nodes(trial: Trial, kind: Node, nodes: Sequence[Node], count: int) -> Iterator[Option]:
    gpus, where = len(kind.devices), _where(trial, kind)
    while count <= len(nodes):
        more = "1 more node" if count == 1 else f"{count} more nodes"
        detail = f"{more} with {gpus} {kind.model.name} ({kind.capacity}){where} would place it"
        yield Option("nodes", detail, change=Change(add_nodes=tuple(nodes[:count])))
        count *= 2


def _fewest(trial: Trial, session: Session, names: list[str]) -> int | None:
    """By doubling, then by halving."""

    def works(count: int) -> bool:
        closed = set(names[count:])
        known: dict[int, list[str]] = {}  # one list for one group: placement remembers what it knows by the list

        def open_nodes(asked: Pending) -> Nodes:
            groups = session.eligible(asked)
            for group in groups.values():
                if id(group) not in known:
                    known[id(group)] = [n for n in group if n not in closed]
            return {model: known[id(group)] for model, group in groups.items()}

        return trial.starts(session, open_nodes) is not None

    low, high = 0, 1
    while not works(high):
        if high == len(names):
            return None
        low, high = high, min(2 * high, len(names))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _kinds(trial: Trial) -> list[Node]:
    """Nodes to think of: those of the fleet that may serve the job, with enough GPUs for a pod; else of its model."""
    job, session = trial.pending.job, trial.session
    pod = max((s.demand.gpus for s in job.pod_sets if isinstance(s.demand, Whole)), default=1)
    position = _position(trial)
    found: Counter[tuple[str, int, CapacityType]] = Counter()
    first: dict[tuple[str, int, CapacityType], Node] = {}
    for node in session.nodes.values():
        gpus = max(len(node.devices), pod)
        for kept in dict.fromkeys((node.capacity, *job.capacity[:1])):
            key = (node.model.name, gpus, kept)
            kind = _new(node.model, gpus, kept, position, node)
            if isinstance(verdict(job, kind), Fit):
                found[key] += 1
                first.setdefault(key, kind)
    if found:
        return [first[key] for key, _ in sorted(found.items(), key=lambda f: (-f[1], f[0]))]
    kept = job.capacity[0] if job.capacity else CapacityType.OWNED
    models = [gpu_models()[m] for m in job.models if m in gpu_models()]
    made = (_new(m, max(USUAL_GPUS, pod), kept, position, None) for m in models)
    return [kind for kind in made if isinstance(verdict(job, kind), Fit)]


def _new(model: GpuModel, gpus: int, kept: CapacityType, position: tuple[str, ...], like: Node | None) -> Node:
    """An empty node; host and sharing like one the fleet has."""
    return Node(
        name=NEW,
        model=model,
        devices=tuple(map(Device, range(gpus))),
        position=position,
        capacity=kept,
        link=like.link if like else model.link,
        mig=like.mig if like else (MigRemake.SLICE if model.profiles else MigRemake.NEVER),
        sharing=like.sharing if like else True,
        cpu=like.cpu if like else None,
        memory_mib=like.memory_mib if like else None,
        cluster=like.cluster if like else "main",
    )


def _position(trial: Trial) -> tuple[str, ...]:
    """Where the new nodes stand: in the domain of the required level that holds most already, else in a new one."""
    job, session = trial.pending.job, trial.session
    depth = session.topology.depth[job.topology.required or "cluster"]
    levels = session.topology.names[1:-1]
    if not job.topology.required or depth > len(levels):
        return ()
    names = [n for group in session.eligible(trial.pending).values() for n in group]
    labelled = [n for n in names if len([p for p in session.nodes[n].position[:depth] if p]) == depth]
    if not labelled:
        return (NEW,) * len(levels)
    domains = session.topology.split(labelled, depth).values()
    best = max(domains, key=lambda d: (_pods(session, job, d), sum(len(session.ledger.books[n].free) for n in d), d))
    return session.nodes[best[0]].position[:depth]


def _pods(session: Session, job: Job, names: Iterable[str]) -> int:
    """Pods that fit there now, each set counted as if it were alone."""
    books = [session.ledger.books[n] for n in names]
    return sum(min(s.count, sum(capacity(session.ledger, book, s) for book in books)) for s in job.pod_sets)


def _where(trial: Trial, kind: Node) -> str:
    required = trial.pending.job.topology.required
    if not required or not kind.position:
        return ""
    is_new = NEW in kind.position
    return f" in one new {required}" if is_new else f" in {required} {'/'.join(kind.position)}"


# ---------------------------------------------------------------- quota


def raised(trial: Trial) -> Iterator[Option]:
    """The limits, or the guarantee, that would have to be higher, where that alone lets the job start."""
    job, session = trial.pending.job, trial.session
    for model in session.eligible(trial.pending):
        grains = session.grains(job, model, job.least_pods)
        wanted = [*_limits(session, job, model, grains), *_guarantee(session, job, model, grains)]
        queues = _with(session.tree.queues, wanted)
        if wanted and trial.starts(trial.with_queues(queues)) is not None:
            words = " and ".join(f"a {what} of {GpuAmount(g)} {_gpus(key)}" for _, what, key, g in wanted)
            names = " and ".join(dict.fromkeys(f"queue {name}" for name, *_ in wanted))
            yield Option("quota", f"{words} for {names} would allow it", change=Change(queues=tuple(queues)))


Raise = tuple[str, str, str, int]
"""(queue, `limit` or `deserved`, key, grains)"""


def _limits(session: Session, job: Job, model: str, grains: int) -> Iterator[Raise]:
    for name in session.tree.chain(job.queue):
        used = session.usage.of(name)
        for key, most in sorted(session.tree.limits.get(name, {}).items()):
            now = sum(used.values()) if key == ANY_MODEL else used.get(key, 0)
            if key in (model, ANY_MODEL) and now + grains > most:
                yield name, "limit", key, now + grains


def _guarantee(session: Session, job: Job, model: str, grains: int) -> Iterator[Raise]:
    if job.preemptible or session.usage.fits_guarantee(job.queue, model, grains):
        return
    fixed, due = session.usage.fixed(job.queue), session.tree.deserved(job.queue)
    for key in [k for k in (model, ANY_MODEL) if k in due] or [ANY_MODEL]:
        need = (sum(fixed.values()) if key == ANY_MODEL else fixed.get(key, 0)) + grains
        if need > due.get(key, 0):
            yield job.queue, "deserved", key, need


def _with(queues: Mapping[str, Queue], wanted: Iterable[Raise]) -> list[Queue]:
    """The queues that change, as they would be."""
    found: dict[str, Queue] = {}
    for name, what, key, grains in wanted:
        old = found.get(name, queues[name])
        table = {**dict(getattr(old, what)), key: GpuAmount(grains)}
        amounts = tuple(sorted(table.items()))
        found[name] = replace(old, limit=amounts) if what == "limit" else replace(old, deserved=amounts)
    return list(found.values())


def _gpus(key: str) -> str:
    return "GPUs" if key == ANY_MODEL else key
