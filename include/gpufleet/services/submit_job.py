"""Takes a request in: checks who asks and what for, writes the job, or adopts the one that is there.

Nothing is left behind by a refusal: every check comes before the first write, in one transaction with it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from sqlalchemy import Connection, insert, select, update

from gpufleet.errors import Forbidden, Invalid
from gpufleet.formats.request import JobRequest
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import GpuModel
from gpufleet.model.tenancy import Principal, Team
from gpufleet.model.workload import Slice, Whole
from gpufleet.placement.memory import Unknown, need
from gpufleet.services.asked import gpus_asked
from gpufleet.services.fleet import Fleet
from gpufleet.services.rights import check_priority, may_act_for
from gpufleet.store import jobs, leases, ledger, memory, tenancy, world
from gpufleet.store import schema as t


def claim_key(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """One text for one task instance; the parts are quoted, since a run's id may contain anything."""
    return "/".join([*(quote(part, safe="") for part in (dag_id, run_id, task_id)), str(map_index)])


@dataclass(frozen=True, slots=True)
class Origin:
    """The Airflow try that asks: one key for all tries of one task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int

    @property
    def key(self) -> str:
        return claim_key(self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True)
class Submitted:
    """`how` is new, adopted (the live job of an earlier try) or reopened (it had ended; it resumes from its checkpoint)."""

    job: str
    how: str


def submit_job(fleet: Fleet, request: JobRequest, principal: Principal, origin: Origin | None = None) -> Submitted:
    """Write the job down, pending. Raises Invalid or Forbidden with one sentence, and then nothing was written."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        if origin is not None and (known := _claimed(connection, origin, now, fresh=request.fresh)):
            leases.touch(connection)
            return known
        team = _team(connection, request, principal)
        request = _learned(connection, request, team)
        _refuse_impossible(connection, request)
        if request.deadline is not None and request.deadline <= now:
            raise Invalid(f"deadline {request.deadline:%Y-%m-%dT%H:%M:%SZ} has passed.")
        job = request.to_job(id=_job_id(request, origin), queue=team.queue, submitted_by=principal.login, at=now)
        jobs.add_job(connection, job)
        if origin is not None:
            _claim(connection, origin, job.id, now)
        ledger.audit(connection, now, principal.login, "submit", job.id, gpus_asked(job))
        leases.touch(connection)
        return Submitted(job.id, "new")


def submit_ahead(fleet: Fleet, request: JobRequest, principal: Principal, origin: Origin) -> Submitted | None:
    """Submit for a try that has not started yet; None when its key is known already: then that try speaks for itself."""
    with fleet.database.read() as connection:
        if connection.execute(select(t.claim.c.key).where(t.claim.c.key == origin.key)).first():
            return None
    return submit_job(fleet, request, principal, origin)


# ------------------------------------------------------------------ claims


def _claimed(connection: Connection, origin: Origin, now: datetime, *, fresh: bool) -> Submitted | None:
    """The job this key has already, handed to this try; None when there is none, or a fresh one is wanted after its end."""
    row = connection.execute(select(t.claim).where(t.claim.c.key == origin.key)).first()
    if row is None:
        return None
    known = jobs.get(connection, row.job)
    is_newer = origin.try_number > row.try_number
    if known is None or (known.is_over and fresh and is_newer):
        return None
    newest = max(row.try_number, origin.try_number)
    connection.execute(
        update(t.claim).where(t.claim.c.key == origin.key).values(try_number=newest, claimed_at=now, live=True)
    )
    if is_newer and known.state == "stopping" and known.intent == "cancel":
        # a clear: the old try's end was heard first, the new one wants the job to go on when it has stopped
        jobs.change(connection, row.job, intent="requeue", reason="its Airflow task was cleared")
    # a try that only comes back to its own ended job wants its result; a later try wants it to run again
    if not known.is_over or not is_newer:
        return Submitted(row.job, "adopted")
    jobs.change(
        connection,
        row.job,
        state="pending",
        intent="run",
        reason="",
        failures=0,
        ended_at=None,
        waiting_since=now,
        not_before=None,
        not_on=[],
    )
    connection.execute(update(t.claim).where(t.claim.c.key == origin.key).values(generation=row.generation + 1))
    return Submitted(row.job, "reopened")


def _claim(connection: Connection, origin: Origin, job_id: str, now: datetime) -> None:
    values = {
        "job": job_id,
        "try_number": origin.try_number,
        "dag_id": origin.dag_id,
        "run_id": origin.run_id,
        "task_id": origin.task_id,
        "map_index": origin.map_index,
        "claimed_at": now,
        "live": True,
    }
    known = connection.execute(select(t.claim.c.generation).where(t.claim.c.key == origin.key)).scalar()
    if known is None:
        connection.execute(insert(t.claim).values(key=origin.key, generation=1, **values))
    else:
        connection.execute(update(t.claim).where(t.claim.c.key == origin.key).values(generation=known + 1, **values))


def _job_id(request: JobRequest, origin: Origin | None) -> str:
    """A short name that is a legal Kubernetes name; the same key and try always give the same one."""
    base = re.sub(r"[^a-z0-9]+", "-", (request.name or request.team).lower()).strip("-")[:24] or "job"
    seed = f"{origin.key}#{origin.try_number}" if origin else secrets.token_hex(16)
    return f"{base}-{hashlib.sha256(seed.encode()).hexdigest()[:8]}"


# ------------------------------------------------------------------ checks


def _team(connection: Connection, request: JobRequest, principal: Principal) -> Team:
    teams = {team.name: team for team in tenancy.teams(connection)}
    team = teams.get(request.team)
    if team is None:
        raise Invalid(f"team '{request.team}' is not known; known are {', '.join(sorted(teams)) or 'none'}.")
    if not may_act_for(tuple(teams.values()), team, principal):
        raise Forbidden(f"'{principal.login}' is not a member of team '{team.name}' who may submit; ask its lead.")
    if request.project not in team.projects:
        raise Invalid(
            f"project '{request.project}' is not one of team '{team.name}'; it has {', '.join(team.projects)}."
        )
    check_priority(teams.values(), team, principal, request.priority)
    return team


def _learned(connection: Connection, request: JobRequest, team: Team) -> JobRequest:
    """The request with the memory its like was measured to need; raises Invalid with what to do where nobody knows."""
    if request.like is None:
        return request
    found = need(memory.points(connection, request.like.name, team.name), request.like, request.kind)
    if isinstance(found, Unknown):
        raise Invalid(f"like: {found.why}")
    return request.with_need(found)


def _refuse_impossible(connection: Connection, request: JobRequest) -> None:
    """What no device of the fleet, and none on sale, could ever hold."""
    nodes = world.nodes(connection)
    on_sale = [offering for offering, _, _ in world.offerings(connection)]
    if not nodes and not on_sale:
        return  # no world was seen yet: the pass will say what does not fit
    _refuse_levels(connection, request)
    models = {n.model.name: n.model for n in nodes} | {o.model: gpu_model(o.model) for o in on_sale}
    allowed = [m for name, m in sorted(models.items()) if not request.models or name in request.models]
    if not allowed:
        raise Invalid(
            f"models: none of {', '.join(request.models)} is in this fleet or on sale; there are {', '.join(sorted(models))}."
        )
    largest = max([len(n.devices) for n in nodes] + [o.gpus for o in on_sale])
    _refuse_demand(request, allowed, largest)


def _refuse_levels(connection: Connection, request: JobRequest) -> None:
    """A level nobody knows would promise nothing."""
    levels = {level for cluster in world.clusters(connection).values() for level in cluster.levels} | {"node"}
    for key, level in (
        ("topology_required", request.topology.required),
        ("topology_preferred", request.topology.preferred),
        ("topology_spread", request.topology.spread),
    ):
        if level is not None and level not in levels:
            raise Invalid(
                f"{key}: '{level}' is not a topology level of this fleet; known are {', '.join(sorted(levels))}."
            )


def _refuse_demand(request: JobRequest, models: list[GpuModel], largest: int) -> None:
    key = "like" if request.like else "memory_gib"
    if isinstance(request.demand, Whole):
        for asks, gpus in (("gpus", request.demand.gpus), ("leader_gpus", request.leader_gpus or 0)):
            if gpus > largest:
                raise Invalid(f"{asks}: a pod asks for {gpus} GPUs, the largest node has {largest}.")
        _refuse_memory("gpu_memory_gib", request.gpu_memory_mib, max(m.memory_mib for m in models), "GPU")
    elif isinstance(request.demand, Slice):
        _refuse_slice(key, request.demand, models)
    else:
        _refuse_memory(key, request.demand.memory_mib, max(m.memory_mib for m in models), "GPU")


def _refuse_slice(key: str, demand: Slice, models: list[GpuModel]) -> None:
    profiles = {p.name: p for m in models for p in m.profiles}
    if demand.profile is not None and demand.profile not in profiles:
        raise Invalid(
            f"profile: no GPU of this fleet has a MIG profile '{demand.profile}'; there are {', '.join(sorted(profiles))}."
        )
    if not profiles:
        raise Invalid(f"{key}: no GPU of this fleet can be sliced; ask for whole gpus or a share.")
    _refuse_memory(key, demand.memory_mib, max(p.memory_mib for p in profiles.values()), "MIG slice")


def _refuse_memory(key: str, need: int, most: int, what: str) -> None:
    if need > most:
        raise Invalid(
            f"{key}: {need / 1024:g} GiB is more than any {what} of this fleet has; the largest has {most / 1024:.2f} GiB."
        )
