"""What one attempt looks like to a cluster: its pods with their places, commands and environment."""

from __future__ import annotations

from sqlalchemy import Connection, select

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.errors import NotFound
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container, Job, Share, Slice
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, places
from gpufleet.store import schema as t


def pod_name(job_id: str, attempt: int, rank: int) -> str:
    """Deterministic: the same pod has the same name in every try to start it."""
    return f"{job_id}-{attempt}-{rank}"


def gang_spec(connection: Connection, fleet: Fleet, job_id: str, attempt: int) -> GangSpec:
    """Raises NotFound for a job that is not there."""
    row = jobs.get(connection, job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    job = row.job
    namespace = connection.execute(select(t.team.c.namespace).where(t.team.c.name == job.team)).scalar() or job.team
    held = places.places_of(connection, job_id, attempt)
    return GangSpec(
        job=job_id,
        attempt=attempt,
        team=job.team,
        namespace=namespace,
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
