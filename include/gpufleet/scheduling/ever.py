"""Could this job ever run on this fleet, whatever is free now? Asked at submit and before any other reason is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpufleet.model.hardware import Node
from gpufleet.model.plan import Fit, Reason, Unfit, Verdict
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.model.workload import Job, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.placement import Gang, Ledger, Topology, place_gang
from gpufleet.placement.demand import capacity
from gpufleet.placement.filters import FILTERS, eligible, verdict

HEALTHY = frozenset({Reason.UNHEALTHY})


def check_job(snapshot: Snapshot, job: Job) -> Verdict:
    """Fit, or why no node (or not all nodes together) could hold the job even if the fleet were healthy and empty."""
    return EmptyFleet(snapshot).check(Pending(job))


class EmptyFleet:
    """The fleet as if nothing ran on it and nothing were broken. MIG instances that exist still exist."""

    def __init__(self, snapshot: Snapshot) -> None:
        leaving = [replace(run, leaving=True) for run in snapshot.running]
        self.nodes = {n.name: n for n in snapshot.nodes}
        self.ledger = Ledger(snapshot.nodes, leaving, every_device=True)
        self.topology = Topology(snapshot.levels, snapshot.nodes)

    def check(self, pending: Pending) -> Verdict:
        job = pending.job
        nodes = eligible(job, self.nodes.values(), ignore=HEALTHY)
        if not nodes:
            return _nothing_eligible(job, list(self.nodes.values()))
        for pod_set in job.pod_sets:
            if isinstance(found := self._pod(pod_set, nodes), Unfit):
                return found
        if self._holds(job, nodes):
            return Fit()
        if job.topology.required and self._holds(replace(job, topology=TopologyWish()), nodes):
            level = job.topology.required
            return Unfit(Reason.TOPOLOGY, f"no {level} is large enough for {_size(job)}, even when it is empty")
        return self._too_large(job, nodes)

    def _holds(self, job: Job, nodes: Mapping[str, Sequence[str]]) -> bool:
        mark = self.ledger.mark()
        found = place_gang(self.ledger, self.topology, Gang(job, job.least_pods, nodes))
        self.ledger.rollback(mark)
        return found is not None

    def _pod(self, pod_set: PodSet, nodes: Mapping[str, Sequence[str]]) -> Verdict:
        """One pod alone on an empty node."""
        books = [self.ledger.books[name] for names in nodes.values() for name in names]
        if any(capacity(self.ledger, book, pod_set) for book in books):
            return Fit()
        bare = PodSet(1, pod_set.demand)
        if any(capacity(self.ledger, book, bare) for book in books):
            return Unfit(Reason.HOST_RESOURCES, f"no node has {_host(pod_set)} for one pod")
        match pod_set.demand:
            case Whole(gpus):
                largest = max(len(book.free) for book in books)
                return Unfit(Reason.TOO_LARGE, f"one pod asks {gpus} GPUs, no node has more than {largest}")
            case Slice() as demand:
                return Unfit(Reason.NO_SUCH_MODEL, f"no node has, or may be cut into, a slice {_slice(demand)}")
            case Share():
                return Unfit(Reason.SHARING, "every card that offers shares is cut into slices for good")

    def _too_large(self, job: Job, nodes: Mapping[str, Sequence[str]]) -> Unfit:
        most = max(sum(len(self.ledger.books[n].free) for n in names) for names in nodes.values())
        where = "of one model " if len(nodes) > 1 else ""
        return Unfit(Reason.TOO_LARGE, f"the job asks {_size(job)}, the fleet has {most} GPUs {where}in all")


def _nothing_eligible(job: Job, nodes: Sequence[Node]) -> Unfit:
    """The refusal of the node that came furthest through the filters."""
    if not nodes:
        return Unfit(Reason.NO_SUCH_MODEL, "the fleet has no nodes")
    if job.models and not {n.model.name for n in nodes} & set(job.models):
        return Unfit(Reason.NO_SUCH_MODEL, f"the fleet has no {' or '.join(job.models)}")
    furthest: tuple[int, Unfit] | None = None
    for node in nodes:
        found = verdict(job, node, HEALTHY)
        passed = next(i for i, (_, test) in enumerate(FILTERS) if isinstance(test(job, node), Unfit))
        if isinstance(found, Unfit) and (furthest is None or passed > furthest[0]):
            furthest = passed, found
    assert furthest is not None, "a node without a refusal would be eligible"
    return Unfit(furthest[1].reason, f"no node can serve it: {furthest[1].detail}")


def whole_gpus(job: Job) -> int:
    """Whole GPUs the smallest form of the job asks for."""
    found, left = 0, job.least_pods
    for pod_set in job.pod_sets:
        count = min(left, pod_set.count)
        found += count * pod_set.demand.gpus if isinstance(pod_set.demand, Whole) else 0
        left -= count
    return found


def _size(job: Job) -> str:
    gpus = whole_gpus(job)
    pods = f"{job.least_pods} pod{'s' if job.least_pods > 1 else ''}"
    return f"{gpus} GPUs in {pods}" if gpus else pods


def _slice(demand: Slice) -> str:
    return demand.profile or f"of {demand.memory_mib / 1024:g} GiB"


def _host(pod_set: PodSet) -> str:
    cpu = f"{pod_set.cpu:g} CPUs" if pod_set.cpu else ""
    memory = f"{pod_set.memory_mib / 1024:g} GiB" if pod_set.memory_mib else ""
    return " and ".join(part for part in (cpu, memory) if part)
