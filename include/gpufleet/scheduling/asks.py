"""The same job asked for otherwise: what each wording costs its team nothing or little, the smallest change first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import GpuModel
from gpufleet.model.snapshot import Pending
from gpufleet.model.workload import Demand, Job, PodSet, Share, Slice, Whole
from gpufleet.scheduling.requests import relaxed
from gpufleet.scheduling.session import Session
from gpufleet.units import MIB_PER_GIB

HALVES: Final = 6
"""Times something is halved at most: to a 64th."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A wording of the job, and its words for a person."""

    kind: str
    detail: str
    pending: Pending


Wordings = Iterator[tuple[str, Job]]
"""Words and job, the smallest change first."""


def wordings(session: Session, pending: Pending) -> Iterator[Iterator[Ask]]:
    """Groups of wordings; of each group the first that works is the one to tell."""
    for kind, write in (
        ("topology", _preferred),
        ("preemptible", _preemptible),
        ("capacity-type", _capacity),
        ("gpu-type", _models),
        ("gpus", _fewer_gpus),
        ("memory", _less_memory),
        ("host-resources", _smaller_hosts),
    ):
        yield _asks(kind, write, session, pending)


def _asks(kind: str, write: Callable[[Session, Job], Wordings], session: Session, pending: Pending) -> Iterator[Ask]:
    for words, job in write(session, pending.job):
        yield Ask(kind, words, replace(pending, job=job))


def _preferred(_: Session, job: Job) -> Wordings:
    if job.topology.required:
        level = job.topology.required
        yield f"{level} as a preference instead of a requirement would let it start now", _with_wish(job, level)


def _with_wish(job: Job, level: str) -> Job:
    free = relaxed(job)
    return replace(free, topology=replace(free.topology, preferred=free.topology.preferred or level))


def _preemptible(_: Session, job: Job) -> Wordings:
    if not job.preemptible:
        yield "marked preemptible it would start now", replace(job, preemptible=True)


def _capacity(_: Session, job: Job) -> Wordings:
    for kind in CapacityType if job.capacity else ():
        if kind not in job.capacity:
            yield f"{kind} capacity as well would let it start now", replace(job, capacity=(*job.capacity, kind))


def _models(session: Session, job: Job) -> Wordings:
    for model in sorted(_known(session)) if job.models else ():
        if model not in job.models:
            yield f"{model} as well would let it start now", replace(job, models=(*job.models, model))


def _known(session: Session) -> dict[str, GpuModel]:
    return {n.model.name: n.model for n in session.nodes.values()}


# ---------------------------------------------------------------- smaller


def _fewer_gpus(_: Session, job: Job) -> Wordings:
    most = max((s.demand.gpus for s in job.pod_sets if isinstance(s.demand, Whole)), default=0)
    for times in range(1, HALVES + 1):
        if most >> times:
            sets = tuple(replace(s, demand=_halved_gpus(s.demand, times)) for s in job.pod_sets)
            words = f"{max(1, most >> times)} instead of {most} GPUs per pod would let it start now"
            yield words, replace(job, pod_sets=sets)


def _halved_gpus(demand: Demand, times: int) -> Demand:
    return Whole(max(1, demand.gpus >> times)) if isinstance(demand, Whole) and demand.gpus else demand


def _less_memory(session: Session, job: Job) -> Wordings:
    yield from _smaller_cards(session, job)
    if all(isinstance(s.demand, Whole) for s in job.pod_sets):
        return
    for times in range(1, HALVES + 1):
        sets = tuple(replace(s, demand=_halved(session, s.demand, times)) for s in job.pod_sets)
        if sets != job.pod_sets:
            asked = ", ".join(dict.fromkeys(_words(s.demand) for s in sets if not isinstance(s.demand, Whole)))
            yield f"asking for {asked} it would start now", replace(job, pod_sets=sets)


def _smaller_cards(session: Session, job: Job) -> Wordings:
    """`needs.memory_gib` down to what cards of the fleet have."""
    have = {m.memory_mib for m in _known(session).values() if m.memory_mib < job.needs.memory_mib}
    for memory in sorted(have, reverse=True):
        words = f"a need of {_gib(memory)} instead of {_gib(job.needs.memory_mib)} of GPU memory would let it start now"
        yield words, replace(job, needs=replace(job.needs, memory_mib=memory))


def _halved(session: Session, demand: Demand, times: int) -> Demand:
    """Half, a quarter, ... of a slice's memory or of a share; of a named profile, the next smaller ones."""
    match demand:
        case Slice(profile=str(name)):
            smaller = _smaller_profiles(session, name)
            return Slice(profile=smaller[times - 1]) if times <= len(smaller) else demand
        case Slice(memory, compute):
            return Slice(max(1, memory >> times), max(1, compute >> times)) if memory or compute > 1 else demand
        case Share(milli, memory):
            return Share(max(1, milli >> times), memory >> times)
        case _:
            return demand


def _smaller_profiles(session: Session, name: str) -> Sequence[str]:
    """Profiles of the same model with less memory and no more compute, the largest first; media profiles left out."""
    for model in _known(session).values():
        if found := model.profile(name):
            fits = [
                p
                for p in model.profiles
                if p.memory_mib < found.memory_mib and p.compute <= found.compute and "+" not in p.name
            ]
            return [p.name for p in sorted(fits, key=lambda p: (-p.memory_mib, -p.compute, p.name))]
    return ()


def _smaller_hosts(_: Session, job: Job) -> Wordings:
    if not any(s.cpu or s.memory_mib for s in job.pod_sets):
        return
    for times in range(1, HALVES + 1):
        sets = tuple(_halved_host(s, times) for s in job.pod_sets)
        asked = " and ".join(dict.fromkeys(words for s in sets if (words := _host(s))))
        yield f"with {asked} of the host per pod it would start now", replace(job, pod_sets=sets)


def _halved_host(pod_set: PodSet, times: int) -> PodSet:
    cpu = pod_set.cpu and pod_set.cpu / 2**times
    return replace(pod_set, cpu=cpu, memory_mib=pod_set.memory_mib and pod_set.memory_mib >> times)


def _host(pod_set: PodSet) -> str:
    cpu = [f"{pod_set.cpu:g} CPUs"] if pod_set.cpu else []
    return " and ".join([*cpu, *([_gib(pod_set.memory_mib)] if pod_set.memory_mib else [])])


def _words(demand: Demand) -> str:
    match demand:
        case Slice(profile=str(name)):
            return name
        case Slice(memory, compute):
            return f"a slice of {_gib(memory)}" + (f" and {compute} compute" if compute > 1 else "")
        case Share(milli, memory):
            return f"a share of {milli / 1000:g}" + (f" with {_gib(memory)}" if memory else "")
        case Whole(gpus):
            return f"{gpus} GPUs"


def _gib(mib: int) -> str:
    return f"{mib / MIB_PER_GIB:.4g} GiB"


def fewer_pods(pending: Pending) -> Pending | None:
    """The job content with any number of its pods; None where it is already."""
    if pending.job.least_pods == 1:
        return None
    return replace(pending, job=replace(pending.job, min_members=1))


def with_runtime(pending: Pending, runtime: timedelta) -> Pending:
    """The job with a declared runtime."""
    return replace(pending, job=replace(pending.job, runtime=runtime))
