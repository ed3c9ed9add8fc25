"""What one attempt looks like to a cluster: its pods with their places, commands and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection, select

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.handed import Handed
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container, Job, Share, Slice
from gpufleet.services.fleet import Fleet
from gpufleet.services.stays import save_intervals
from gpufleet.store import jobs, places
from gpufleet.store import schema as t


def pod_name(job_id: str, attempt: int, rank: int) -> str:
    """Deterministic: the same pod has the same name in every try to start it."""
    return f"{job_id}-{attempt}-{rank}"


def gang_specs(
    connection: Connection, fleet: Fleet, which: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], GangSpec | Handed]:
    """By (job, attempt), without places where another scheduler finds them; jobs that are not there are left out."""
    keys = list(which)
    rows = jobs.get_many(connection, {job for job, _ in keys})
    held = places.places_of_jobs(connection, rows)
    intervals = save_intervals(connection, rows, held, fleet.clock.now())
    spaces: dict[str, str] = {
        row.name: row.namespace for row in connection.execute(select(t.team.c.name, t.team.c.namespace))
    }
    return {
        (job, attempt): _gang(fleet, _saving(rows[job].job, intervals), attempt, held.get((job, attempt), ()), spaces)
        for job, attempt in keys
        if job in rows
    }


def _saving(job: Job, intervals: Mapping[str, timedelta]) -> Job:
    interval = intervals.get(job.id, job.checkpoint.interval)
    return replace(job, checkpoint=replace(job.checkpoint, interval=interval))


def _gang(
    fleet: Fleet, job: Job, attempt: int, held: tuple[PodPlace, ...], spaces: Mapping[str, str]
) -> GangSpec | Handed:
    if job.queue in fleet.handed:
        return Handed(job, attempt, spaces.get(job.team) or job.team, _container(fleet, job, attempt))
    return GangSpec(
        job=job.id,
        attempt=attempt,
        team=job.team,
        namespace=spaces.get(job.team) or job.team,
        pods=tuple(_pod(fleet, job, attempt, place) for place in held),
        grace=job.checkpoint.grace,
        kind=job.kind,
    )


def _pod(fleet: Fleet, job: Job, attempt: int, place: PodPlace) -> PodSpec:
    demand = job.pod_sets[place.pod_set].demand
    need = demand.memory_mib if isinstance(demand, Slice | Share) else job.needs.memory_mib
    return PodSpec(pod_name(job.id, attempt, place.rank), place.rank, place, _container(fleet, job, attempt), need)


def _container(fleet: Fleet, job: Job, attempt: int) -> Container:
    ours = {
        "GPUFLEET_JOB": job.id,
        "GPUFLEET_ATTEMPT": str(attempt),
        "GPUFLEET_TEAM": job.team,
        "GPUFLEET_PROJECT": job.project,
        "GPUFLEET_CHECKPOINT_URL": fleet.checkpoints_url,
        "GPUFLEET_CHECKPOINT_INTERVAL": f"{job.checkpoint.interval.total_seconds():g}",
        "GPUFLEET_CHECKPOINT_KEEP": str(job.checkpoint.keep),
    }
    own = dict(job.container.env)
    return Container(job.container.command, job.container.image, tuple(sorted((own | ours).items())))
