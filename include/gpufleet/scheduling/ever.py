"""Could this job ever run on this fleet, whatever is free now? Asked at submit and before any other reason is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gpufleet.model.hardware import Node
from gpufleet.model.plan import Fit, Reason, Unfit, Verdict
from gpufleet.model.snapshot import Pending, Snapshot
from gpufleet.model.workload import Job, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.placement import Gang, Ledger, Topology, place_gang
from gpufleet.placement.demand import capacity
from gpufleet.placement.filters import FILTERS, eligible, filter_key, verdict
from gpufleet.placement.pool import pool_of
from gpufleet.placement.topology import natural
from gpufleet.placement.worth import rooms

HEALTHY = frozenset({Reason.UNHEALTHY})


def check_job(snapshot: Snapshot, job: Job) -> Verdict:
    """Fit, or why no node (or not all nodes together) could hold the job even if the fleet were healthy and empty."""
    return EmptyFleet(snapshot).check(Pending(job))


class EmptyFleet:
    """The fleet as if nothing ran on it and (unless `repaired` is false) nothing were broken.

    MIG instances that exist still exist.
    """

    def __init__(self, snapshot: Snapshot, *, repaired: bool = True) -> None:
        self._snapshot, self._repaired = snapshot, repaired
        self.nodes = {n.name: n for n in sorted(snapshot.nodes, key=lambda n: natural(n.name))}
        self._ignore = HEALTHY if repaired else frozenset[Reason]()
        self._eligible: dict[tuple[object, ...], dict[str, list[str]]] = {}

    @cached_property
    def ledger(self) -> Ledger:
        leaving = [replace(run, leaving=True) for run in self._snapshot.running]
        return Ledger(self._snapshot.nodes, leaving, every_device=self._repaired)

    @cached_property
    def topology(self) -> Topology:
        return Topology(self._snapshot.levels, self._snapshot.nodes)

    def check(self, pending: Pending) -> Verdict:
        job = pending.job
        nodes = self._nodes(job)
        if not nodes and not self._ignore:
            return Unfit(Reason.UNHEALTHY, "no node that could serve it takes new work")
        if not nodes:
            return _nothing_eligible(job, list(self.nodes.values()))
        if self._plainly_holds(job, nodes):
            return Fit()
        for pod_set in job.pod_sets:
            if isinstance(found := self._pod(pod_set, nodes), Unfit):
                return found
        bound = job.topology.required
        if (job.least_pods == 1 and not bound) or self._holds(job, nodes):
            return Fit()
        if bound and self._holds(replace(job, topology=TopologyWish()), nodes):
            level = job.topology.required
            return Unfit(Reason.TOPOLOGY, f"no {level} is large enough for {_size(job)}, even when it is empty")
        return self._too_large(job, nodes)

    def _nodes(self, job: Job) -> dict[str, list[str]]:
        key = (*filter_key(job), job.mix_models)
        if key not in self._eligible:
            found = eligible(job, self.nodes.values(), ignore=self._ignore)
            together = {"": [name for names in found.values() for name in names]}
            self._eligible[key] = together if job.mix_models and found else found
        return self._eligible[key]

    def _plainly_holds(self, job: Job, nodes: Mapping[str, Sequence[str]]) -> bool:
        """Counting GPUs answers for equal pods of whole GPUs that ask for nothing else; no books need be opened."""
        (pod_set, *others), gpus = job.pod_sets, job.pod_sets[0].demand
        plain = not others and not job.topology.required and not pod_set.cpu and not pod_set.memory_mib
        if not plain or not isinstance(gpus, Whole) or not gpus.gpus:
            return False
        return any(sum(self._gpus(n) // gpus.gpus for n in names) >= job.least_pods for names in nodes.values())

    def _gpus(self, name: str) -> int:
        """GPUs of a node that can be given whole; none are counted where instances may be there to stay."""
        devices = [d for d in self.nodes[name].devices if self._repaired or d.healthy]
        return 0 if any(d.instances for d in devices) else len(devices)

    def _holds(self, job: Job, nodes: Mapping[str, Sequence[str]]) -> bool:
        if len(job.pod_sets) == 1 and not job.topology.required:  # equal pods without a bond: counting is enough
            return any(self._most(job, names) >= job.least_pods for names in nodes.values())
        mark = self.ledger.mark()
        found = place_gang(self.ledger, self.topology, Gang(job, job.least_pods, nodes))
        self.ledger.rollback(mark)
        return found is not None

    def _pod(self, pod_set: PodSet, nodes: Mapping[str, Sequence[str]]) -> Verdict:
        """One pod alone on an empty node."""
        books = [self.ledger.books[name] for names in nodes.values() for name in names]
        if any(capacity(self.ledger, book, pod_set) for book in books):  # ends at the first that can
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
                return Unfit(Reason.SHARING, "no node offers shares whose cards are not cut into slices for good")

    def _most(self, job: Job, names: Sequence[str]) -> int:
        """Pods that fit on these nodes, each set counted as if it were alone."""
        pool = pool_of(self.ledger, self.topology, names)
        return sum(min(s.count, int(rooms(pool, s).sum())) for s in job.pod_sets)

    def _too_large(self, job: Job, nodes: Mapping[str, Sequence[str]]) -> Unfit:
        if not whole_gpus(job):
            most = max(self._most(job, names) for names in nodes.values())
            return Unfit(Reason.TOO_LARGE, f"the job asks {_size(job)}, the empty fleet holds at most {most} of them")
        most = max(sum(len(self.ledger.books[n].free) for n in names) for names in nodes.values())
        if whole_gpus(job) <= most and any(s.cpu or s.memory_mib for s in job.pod_sets):
            pods = max(self._most(job, names) for names in nodes.values())
            hosts = f"with the CPU and memory it asks the empty fleet holds {pods} of them"
            return Unfit(Reason.TOO_LARGE, f"the job asks {_size(job)}, {hosts}")
        where = "of one model " if len(nodes) > 1 else ""
        return Unfit(Reason.TOO_LARGE, f"the job asks {_size(job)}, the fleet has {most} GPUs {where}in all")


def _nothing_eligible(job: Job, nodes: Sequence[Node]) -> Unfit:
    """The refusal of the node that came furthest through the filters."""
    if not nodes:
        return Unfit(Reason.NO_SUCH_MODEL, "the fleet has no nodes")
    if job.models and not {n.model.name for n in nodes} & set(job.models):
        return Unfit(Reason.NO_SUCH_MODEL, f"the fleet has no {' or '.join(job.models)}")
    told_by = [(node, verdict(job, node, HEALTHY)) for node in nodes]
    refusals = [(_passed(job, node), found) for node, found in told_by if isinstance(found, Unfit)]
    most = max(passed for passed, _ in refusals)
    told = [found for passed, found in refusals if passed == most]
    found = next((f for f in told if f.reason is Reason.MEMORY), told[0])
    if found.reason is Reason.CAPACITY_TYPE:
        return Unfit(found.reason, f"the fleet has no {' or '.join(job.capacity)} capacity that could serve it")
    return Unfit(found.reason, f"no node can serve it: {found.detail}")


def _passed(job: Job, node: Node) -> int:
    return next(i for i, (_, test) in enumerate(FILTERS) if isinstance(test(job, node), Unfit))


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
