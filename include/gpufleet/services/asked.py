"""What a job asks for, pod by pod and in a few words."""

from __future__ import annotations

from gpufleet.model.workload import Job, Whole


def pods_of(job: Job) -> tuple[tuple[int, int], ...]:
    """(pod set, rank) of each pod, ranks over the whole job."""
    sets = [index for index, pod_set in enumerate(job.pod_sets) for _ in range(pod_set.count)]
    return tuple((pod_set, rank) for rank, pod_set in enumerate(sets))


def gpus_asked(job: Job) -> str:
    """The demand in a few words, for people: `2 x 8 GPUs`, `3 x 9 GiB slice`, `0.5 share`."""
    words = []
    for pod_set in job.pod_sets:
        demand = pod_set.demand
        if isinstance(demand, Whole):
            text = f"{demand.gpus} GPU{'s' if demand.gpus != 1 else ''}"
        elif hasattr(demand, "milli"):
            text = f"{demand.milli / 1000:g} share"
        else:
            text = demand.profile or f"{demand.memory_mib / 1024:g} GiB slice"
        words.append(f"{pod_set.count} x {text}")
    return " + ".join(words)
