"""May this node serve this job at all, whatever is free: each filter answers Fit or Unfit with a reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gpufleet.model.hardware import Node, NodeState
from gpufleet.model.plan import Fit, Reason, Unfit, Verdict
from gpufleet.model.workload import Job, Share, Slice, Whole
from gpufleet.placement.demand import share_memory
from gpufleet.placement.geometry import geometry

FIT = Fit()
Filter = Callable[[Job, Node], Verdict]


def right_model(job: Job, node: Node) -> Verdict:
    """The model is named by the job, or the job names none."""
    if job.models and node.model.name not in job.models:
        return Unfit(Reason.NO_SUCH_MODEL, f"{node.name} has {node.model.name}")
    return FIT


def strong_enough(job: Job, node: Node) -> Verdict:
    """The GPU has at least the memory and compute capability asked for."""
    model = node.model
    if model.memory_mib < job.needs.memory_mib:
        return Unfit(Reason.MEMORY, f"{model.name} has {model.memory_mib / 1024:g} GiB")
    if model.compute_capability < job.needs.compute_capability:
        return Unfit(Reason.NO_SUCH_MODEL, f"{model.name} has compute capability {_dotted(model.compute_capability)}")
    return FIT


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def can_be_cut(job: Job, node: Node) -> Verdict:
    """Slices need a model with a profile that holds them; shares need no more memory than the card has."""
    for pod_set in job.pod_sets:
        demand = pod_set.demand
        if isinstance(demand, Share) and share_memory(demand, node.model) > node.model.memory_mib:
            return Unfit(Reason.MEMORY, f"{node.model.name} has {node.model.memory_mib / 1024:g} GiB")
        if isinstance(demand, Slice) and not geometry(node.model).suitable(demand):
            return _no_slice(demand, node)
    return FIT


def _no_slice(demand: Slice, node: Node) -> Unfit:
    profiles = node.model.profiles
    if not profiles:
        return Unfit(Reason.NO_SUCH_MODEL, f"{node.model.name} cannot be cut into slices")
    if demand.profile is not None:
        return Unfit(Reason.NO_SUCH_MODEL, f"{node.model.name} has no MIG profile {demand.profile}")
    largest = max(p.memory_mib for p in profiles)
    return Unfit(Reason.MEMORY, f"the largest slice of {node.model.name} has {largest / 1024:.4g} GiB")


def right_capacity(job: Job, node: Node) -> Verdict:
    if job.capacity and node.capacity not in job.capacity:
        return Unfit(Reason.CAPACITY_TYPE, f"{node.name} is {node.capacity}")
    return FIT


def offers_shares(job: Job, node: Node) -> Verdict:
    """A node without shares still serves the other pods of a job (`demand.capacity` keeps the shares away)."""
    if not node.sharing and all(isinstance(s.demand, Share) for s in job.pod_sets):
        return Unfit(Reason.SHARING, f"{node.name} offers no shares")
    return FIT


def is_ready(_: Job, node: Node) -> Verdict:
    if node.state is not NodeState.READY:
        return Unfit(Reason.UNHEALTHY, f"{node.name} is {node.state}")
    return FIT


# The order is the order of blame: the first that fails is what the team is told.
FILTERS: tuple[tuple[Reason, Filter], ...] = (
    (Reason.NO_SUCH_MODEL, right_model),
    (Reason.NO_SUCH_MODEL, strong_enough),
    (Reason.MEMORY, can_be_cut),
    (Reason.SHARING, offers_shares),
    (Reason.CAPACITY_TYPE, right_capacity),
    (Reason.UNHEALTHY, is_ready),
)


def verdict(job: Job, node: Node, ignore: Collection[Reason] = ()) -> Verdict:
    """The first filter's refusal, or Fit. Filters whose reason is ignored are left out."""
    for reason, test in FILTERS:
        if reason not in ignore and isinstance(found := test(job, node), Unfit):
            return found
    return FIT


def eligible(
    job: Job, nodes: Iterable[Node], not_on: Collection[str] = (), ignore: Collection[Reason] = ()
) -> dict[str, list[str]]:
    """Names of nodes that may serve the job, by GPU model in the order models are tried.

    Named models are tried as the job names them; else the weakest first, so the strong stay free.
    """
    found: dict[str, list[str]] = {}
    models = {}
    alike: dict[tuple[object, ...], bool] = {}  # what filters look at: nodes that agree in it are judged once
    for node in nodes:
        kind = (node.model.name, node.capacity, node.state, node.sharing)
        if kind not in alike:
            alike[kind] = isinstance(verdict(job, node, ignore), Fit)
        if alike[kind] and (node.name not in not_on or Reason.UNHEALTHY in ignore):
            found.setdefault(node.model.name, []).append(node.name)
            models[node.model.name] = node.model
    if job.models:
        order = sorted(found, key=job.models.index)
    else:
        order = sorted(found, key=lambda m: (models[m].memory_mib, models[m].compute_capability, m))
    return {name: found[name] for name in order}


def filter_key(job: Job) -> tuple[object, ...]:
    """What of a job the filters look at: jobs that agree in it have the same eligible nodes."""
    parts = frozenset(s.demand for s in job.pod_sets if not isinstance(s.demand, Whole))
    has_whole = any(isinstance(s.demand, Whole) for s in job.pod_sets)
    return job.models, job.needs, job.capacity, parts, has_whole
