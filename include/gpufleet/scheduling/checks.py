"""Every gate a request passes, in order and with its numbers: a team sees all that stops it, not only what is first.

A gate is ok when it alone would let the job through: the nodes it leaves could hold the job were they empty; what is
free is enough; and so on. Gates speak of the fleet as the pass leaves it, with what starts now already counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpufleet.model.hardware import Node
from gpufleet.model.plan import Plan, Reason, Unfit, Waiting
from gpufleet.model.snapshot import Pending
from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.model.workload import Job, Share, Slice, Whole
from gpufleet.placement.demand import capacity
from gpufleet.placement.filters import verdict
from gpufleet.placement.ledger import Ledger
from gpufleet.scheduling.ever import EmptyFleet, whole_gpus
from gpufleet.scheduling.session import Session
from gpufleet.units import GRAIN, MIB_PER_GIB, GpuAmount

LEVEL_OF: Final[Mapping[Reason, str]] = {
    Reason.OVER_LIMIT: "quota-limit",
    Reason.OVER_QUOTA_NON_PREEMPTIBLE: "quota-guarantee",
    Reason.NO_SUCH_MODEL: "gpu-type",
    Reason.MEMORY: "memory",
    Reason.SHARING: "sharing",
    Reason.CAPACITY_TYPE: "capacity-type",
    Reason.UNHEALTHY: "healthy",
    Reason.TOO_LARGE: "size",
    Reason.HOST_RESOURCES: "host-resources",
    Reason.NOT_ENOUGH: "free",
    Reason.FRAGMENTED: "fragmentation",
    Reason.TOPOLOGY: "topology",
    Reason.BEHIND: "turn",
}
"""The gate that a pending job's reason is about; the gates come in this order."""

NODE_GATES: Final = (Reason.NO_SUCH_MODEL, Reason.MEMORY, Reason.SHARING, Reason.CAPACITY_TYPE, Reason.UNHEALTHY)
"""Gates that leave out nodes, in the order of the filters."""

AHEAD = 3
"""Jobs ahead in the queue that are named."""


@dataclass(frozen=True, slots=True)
class Check:
    """One gate: its name, whether it lets the job through, and one sentence with the numbers."""

    level: str
    ok: bool
    detail: str


def checks(session: Session, plan: Plan, pending: Pending, entry: Waiting) -> tuple[Check, ...]:
    """All gates of a waiting job. The one that the reason names is never ok, and says what the reason says."""
    look = _Look(session, pending)
    found = [*look.quota(), *look.nodes(), *look.room(entry.reason), look.topology(), _turn(plan, entry, pending.job)]
    blamed = LEVEL_OF.get(entry.reason, str(entry.reason))
    found = [c for c in found if c.level != blamed] + [Check(blamed, False, entry.detail)]
    order = list(LEVEL_OF.values())
    return tuple(sorted(found, key=lambda c: order.index(c.level) if c.level in order else len(order)))


def _turn(plan: Plan, entry: Waiting, job: Job) -> Check:
    """Behind whom: places in the line hold nobody back, another's reservation does."""
    before = [w.job for w in plan.waiting if w.position < entry.position]
    names = ", ".join(before[:AHEAD]) + (f" and {len(before) - AHEAD} more" if len(before) > AHEAD else "")
    ahead = f" behind {names}" if before else ""
    where = f"place {entry.position} in the line, {entry.queue_position} in queue {job.queue}{ahead}"
    return Check("turn", True, f"{where}; no free GPU it could use is reserved for another")


class _Look:
    """One request against the fleet after the pass."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self.session, self.pending, self.job = session, pending, pending.job
        self.groups = session.eligible(pending)
        self.model = next(iter(self.groups), self.job.models[0] if self.job.models else ANY_MODEL)

    # ------------------------------------------------------------ quota

    def quota(self) -> Iterator[Check]:
        session, job = self.session, self.job
        open_models = [m for m in self.groups if session.usage.over_limit(job.queue, m, self._grains(m)) is None]
        model = open_models[0] if open_models else self.model
        grains = self._grains(model)
        asked = f"this job asks {GpuAmount(grains)}"
        rows = [row for name in session.tree.chain(job.queue) for row in self._limits(name, model)]
        limits = "; ".join(rows) or f"no limit on queue {job.queue} or above it"
        yield Check("quota-limit", session.usage.over_limit(job.queue, model, grains) is None, f"{limits}; {asked}")
        due = _amounts(session.tree.deserved(job.queue))
        used = GpuAmount(sum(session.usage.of(job.queue).values()))
        if job.preemptible:
            says = f"preemptible work may go beyond what queue {job.queue} deserves ({due}; it uses {used})"
            yield Check("quota-guarantee", True, says)
            return
        fixed = GpuAmount(sum(session.usage.fixed(job.queue).values()))
        says = f"queue {job.queue} deserves {due}; its work that may not be preempted holds {fixed}, {asked}"
        yield Check("quota-guarantee", session.usage.fits_guarantee(job.queue, model, grains), says)

    def _limits(self, queue: str, model: str) -> Iterator[str]:
        used = self.session.usage.of(queue)
        for key, most in sorted(self.session.tree.limits.get(queue, {}).items()):
            if key in (model, ANY_MODEL):
                now = GpuAmount(sum(used.values()) if key == ANY_MODEL else used.get(key, 0))
                yield f"queue {queue} may use {GpuAmount(most)} {_gpus(key)} and uses {now}"

    def _grains(self, model: str) -> int:
        if model in self.groups:
            return self.session.grains(self.job, model, self.job.least_pods)
        return whole_gpus(self.job) * GRAIN

    # ------------------------------------------------------------ which nodes may serve it at all

    def nodes(self) -> Iterator[Check]:
        """Filter after filter, how many nodes are left. One is at fault when only without it they could hold the job,
        were they empty, or when it leaves none.
        """
        empty = EmptyFleet(self.session.snapshot)
        left = list(self.session.nodes.values())
        held = self._holds(empty.ledger, left)
        for reason in NODE_GATES:
            before, left = left, [n for n in left if not self._refuses(n, reason)]
            if reason is Reason.UNHEALTHY:
                empty = EmptyFleet(self.session.snapshot, repaired=False)
            holds = self._holds(empty.ledger, left)
            at_fault = (held and not holds) or (bool(before) and not left)
            held = holds
            if reason is not Reason.SHARING or any(isinstance(s.demand, Share) for s in self.job.pod_sets):
                says = f"{len(left)} of {len(before)} nodes {self._words(reason, left)}"
                yield Check(LEVEL_OF[reason], not at_fault, says)
        if held:
            yield Check("size", True, "those nodes would hold it, were they empty")

    def _refuses(self, node: Node, reason: Reason) -> bool:
        if reason is Reason.UNHEALTHY and node.name in self.pending.not_on:
            return True
        found = verdict(self.job, node)
        return isinstance(found, Unfit) and found.reason is reason

    def _holds(self, ledger: Ledger, nodes: Sequence[Node]) -> bool:
        """Each pod set alone, all nodes of one model."""
        by_model: dict[str, list[str]] = {}
        for node in nodes:
            by_model.setdefault(node.model.name, []).append(node.name)
        return any(all(have >= need for have, need in self._counts(ledger, names)) for names in by_model.values())

    def _counts(self, ledger: Ledger, names: Sequence[str]) -> list[tuple[int, int]]:
        """For every pod set of the smallest form: (pods that fit on these nodes, pods needed)."""
        found, left = [], self.job.least_pods
        for pod_set in self.job.pod_sets:
            need = min(left, pod_set.count)
            left -= need
            found.append((min(need, sum(capacity(ledger, ledger.books[n], pod_set) for n in names)), need))
        return found

    def _words(self, reason: Reason, left: Sequence[Node]) -> str:
        job = self.job
        match reason:
            case Reason.NO_SUCH_MODEL:
                return f"have a GPU model it accepts ({' or '.join(job.models) or 'any'})"
            case Reason.MEMORY:
                return f"have GPUs or slices with the memory it asks for ({_memory(job)})"
            case Reason.SHARING:
                return "offer shares"
            case Reason.CAPACITY_TYPE:
                return f"are of a capacity type it accepts ({' or '.join(job.capacity) or 'any'})"
            case _:
                sick = sum(1 for n in left for d in n.devices if not d.healthy)
                return f"take new work, with {sick} of their {sum(len(n.devices) for n in left)} GPUs out of service"

    # ------------------------------------------------------------ room

    def room(self, reason: Reason) -> Iterator[Check]:
        """Hosts, the free amount, and whether it lies together; of several models the one with most room counts."""
        ledger, job = self.session.ledger, self.job
        counts = max((self._counts(ledger, names) for names in self.groups.values()), key=_sum, default=[])
        before, ledger.ignore = ledger.ignore, ledger.ignore | {Reason.HOST_RESOURCES}
        bare = max((self._counts(ledger, names) for names in self.groups.values()), key=_sum, default=[])
        ledger.ignore = before
        hosts = any(s.cpu or s.memory_mib for s in job.pod_sets)
        says = f"free GPUs hold {_sum(bare)} of {job.least_pods} pods, with CPU and memory of the hosts {_sum(counts)}"
        none = "it asks for no CPU and memory of the hosts"
        yield Check("host-resources", _sum(counts) == _sum(bare), says if hosts else none)
        enough, amount = self._free(_sum(bare))
        enough = enough or reason is Reason.FRAGMENTED
        yield Check("free", enough, amount)
        lies = f"{_sum(bare)} of {job.least_pods} pods fit the way free GPUs lie{self._largest()}"
        few = "too little is free for its pieces to matter"
        yield Check("fragmentation", not enough or _sum(bare) >= job.least_pods, lies if enough else few)

    def _free(self, pods: int) -> tuple[bool, str]:
        """Whether enough is free, wherever it is: whole GPUs by number, parts of cards by the pods they hold."""
        job, books = self.job, self.session.ledger.books
        if not all(isinstance(s.demand, Whole) for s in job.pod_sets):
            return pods >= job.least_pods, f"{job.least_pods} pods are needed, there is room for {pods}"
        free = max((sum(len(books[n].free) for n in names) for names in self.groups.values()), default=0)
        need = whole_gpus(job)
        return free >= need, f"{need} GPUs are needed, {free} are free on nodes that may serve it"

    def _largest(self) -> str:
        pod = max((s.demand.gpus for s in self.job.pod_sets if isinstance(s.demand, Whole)), default=0)
        books = self.session.ledger.books
        largest = max((len(books[n].free) for names in self.groups.values() for n in names), default=0)
        return f": at most {largest} on one node, a pod needs {pod}" if pod else ""

    def topology(self) -> Check:
        """The required level; `levels` of the answer has all of them."""
        required = self.job.topology.required
        if required is None:
            return Check("topology", True, "no level is required to hold all its pods")
        session = self.session
        best, number = 0, 0
        for names in self.groups.values():
            domains = session.topology.split(names, session.topology.depth[required]).values()
            number += len(domains)
            best = max([best, *(_sum(self._counts(session.ledger, d)) for d in domains)])
        says = (
            f"all pods must be in one {required}; the best of {number} holds {best} of {self.job.least_pods} pods now"
        )
        return Check("topology", best >= self.job.least_pods or not self._together(), says)

    def _together(self) -> bool:
        """Whether the job would fit, were the level not required: else it is not the level that is in the way."""
        free = replace(self.pending, job=replace(self.job, topology=replace(self.job.topology, required=None)))
        mark = self.session.mark()
        fits = self.session.start(free) is not None
        self.session.rollback(mark)
        return fits


def _sum(counts: Sequence[tuple[int, int]]) -> int:
    return sum(have for have, _ in counts)


def _gpus(key: str) -> str:
    return "GPUs" if key == ANY_MODEL else key


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{GpuAmount(g)} {_gpus(key)}" for key, g in sorted(amounts.items())) or "nothing"


def _memory(job: Job) -> str:
    """What the job says about GPU memory."""
    words = [f"GPUs of {job.needs.memory_mib / MIB_PER_GIB:g} GiB"] if job.needs.memory_mib else []
    for demand in (s.demand for s in job.pod_sets):
        if isinstance(demand, Slice):
            words.append(demand.profile or f"a slice of {demand.memory_mib / MIB_PER_GIB:g} GiB")
        elif isinstance(demand, Share) and demand.memory_mib:
            words.append(f"{demand.memory_mib / MIB_PER_GIB:g} GiB of a shared card")
    return ", ".join(dict.fromkeys(words)) or "any"
