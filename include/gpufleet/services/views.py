"""What people see: jobs with position and reason, the fleet as rooms, teams' use. JSON-ready, for portal and CLI alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from gpufleet.model.snapshot import PodPlace
from gpufleet.services.asked import gpus_asked
from gpufleet.services.change_job import find_job
from gpufleet.services.fleet import Fleet
from gpufleet.services.idle_gpus import idle_jobs
from gpufleet.store import jobs, leases, places, tenancy, verdicts, world
from gpufleet.store import schema as t
from gpufleet.store.codec import load_node
from gpufleet.store.jobs import JobRow


def jobs_view(fleet: Fleet, *, team: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """Jobs, live ones first, each with its state, place in the line and the reason it waits."""
    with fleet.database.read() as connection:
        reasons, held = verdicts.by_job(connection), places.live_places(connection)
        attempts = {a.job: a.number for a in jobs.live_attempts(connection)}
        rows = [r for r in jobs.recent(connection, limit) if team is None or r.job.team == team]
        return [
            _job(row, reasons.get(row.job.id), held.get((row.job.id, attempts.get(row.job.id, 0)), ())) for row in rows
        ]


def job_view(fleet: Fleet, text: str) -> dict[str, Any]:
    """One job with its attempts, saves and places; raises NotFound."""
    with fleet.database.read() as connection:
        row = find_job(connection, text)
        number = next((a.number for a in jobs.attempts(connection, row.job.id) if a.state != "ended"), 0)
        held = places.places_of(connection, row.job.id, number) if number else ()
        view = _job(row, verdicts.by_job(connection).get(row.job.id), held)
        saves = connection.execute(
            select(t.checkpoint).where(t.checkpoint.c.job == row.job.id).order_by(t.checkpoint.c.at)
        )
        return view | {
            "attempts": [_attempt(connection, row, a.number) for a in jobs.attempts(connection, row.job.id)],
            "checkpoints": [{"attempt": s.attempt, "step": s.step, "at": _iso(s.at), "bytes": s.bytes} for s in saves],
            "command": " ".join(row.job.container.command),
            "deadline": _iso(row.job.deadline),
            "checkpoint_interval_s": row.job.checkpoint.interval.total_seconds(),
        }


def _job(row: JobRow, verdict: Row[Any] | None, held: tuple[PodPlace, ...]) -> dict[str, Any]:
    job, waits = row.job, _waits(row, verdict)
    return {
        "job": job.id,
        "name": job.name,
        "team": job.team,
        "project": job.project,
        "queue": job.queue,
        "kind": job.kind.value,
        "asks": gpus_asked(job),
        "priority": job.priority,
        "state": "pending" if waits else row.state,
        "submitted_by": job.submitted_by,
        "submitted_at": _iso(job.submitted_at),
        "ended_at": _iso(row.ended_at),
        "position": verdict.position if verdict and waits else None,
        "queue_position": verdict.queue_position if verdict and waits else None,
        "reason": verdict.reason if verdict and waits else "",
        "detail": _detail(row, verdict),
        "unblock": verdict.unblock if verdict and waits else "",
        "where": [_place(p) for p in held],
        "progress": row.progress,
    }


def _waits(row: JobRow, verdict: Row[Any] | None) -> bool:
    """For us, or for the scheduler that it was handed to."""
    handed = verdict is not None and verdict.reason == verdicts.HANDED_OVER
    return row.state == "pending" or (row.state == "starting" and handed)


def _detail(row: JobRow, verdict: Row[Any] | None) -> str:
    """Why it waits, what is wrong with it, or how it ended."""
    if _waits(row, verdict):
        later = row.not_before and f"it is tried again at {row.not_before:%H:%M:%S} UTC"
        waits = verdict.detail if verdict else later or "its first pass is about to come"
        return f"{waits} (before: {row.reason})" if row.reason else waits
    error = (row.progress or {}).get("save_error")
    if error and not row.is_over:
        return f"cannot save: {error}"
    return row.reason


def _attempt(connection: Connection, row: JobRow, number: int) -> dict[str, Any]:
    attempt = next(a for a in jobs.attempts(connection, row.job.id) if a.number == number)
    return {
        "attempt": number,
        "state": attempt.state,
        "decided_at": _iso(attempt.decided_at),
        "running_at": _iso(attempt.running_at),
        "ended_at": _iso(attempt.ended_at),
        "end_reason": attempt.end_reason,
        "interruption": attempt.interruption,
        "busy": attempt.busy,
        "idle_since": _iso(attempt.idle_since),
        "where": [_place(p) for p in places.places_of(connection, row.job.id, number)],
    }


def _place(place: PodPlace) -> dict[str, Any]:
    return {
        "rank": place.rank,
        "node": place.node,
        "gpus": list(place.gpus),
        "slices": [{"gpu": s.gpu, "profile": s.instance.profile, "start": s.instance.start} for s in place.slices],
        "shares": [{"gpu": s.gpu, "fraction": f"{s.milli / 1000:g}", "memory_mib": s.memory_mib} for s in place.shares],
    }


def fleet_view(fleet: Fleet) -> dict[str, Any]:
    """Nodes by domain, each GPU with its slices and whose job is where."""
    with fleet.database.read() as connection:
        rows = {r.job.id: r for r in jobs.live(connection)}
        live = jobs.live_attempts(connection)
        attempts = {a.job: a.number for a in live}
        held = {k: v for k, v in places.live_places(connection).items() if attempts.get(k[0]) == k[1]}
        on = _by_node(held, rows)
        nodes = [_node(r, on.get(r.name, ())) for r in world.node_rows(connection)]
        clusters = world.clusters(connection)
        now = fleet.clock.now()
        return {
            "at": _iso(now),
            "banner": fleet.banner,
            "levels": list(_levels(clusters.values())),
            "clusters": [
                {"cluster": c.name, "seen_s": round((now - c.observed_at).total_seconds(), 1)}
                for c in clusters.values()
            ],
            "nodes": nodes,
            "idle": idle_jobs(rows, live, fleet.recovery, now),
            "states": jobs.count_by_state(connection),
            "controller": leases.holder(connection, "controller", now) or "",
            "interruptions": [
                {"id": i.id, "node": i.node, "at": _iso(i.noticed_at), "deadline": _iso(i.deadline)}
                for i in world.interruptions(connection, 10)
            ],
            "instances": [
                {"instance": i.name, "offering": i.offering, "state": i.state, "hourly": f"{i.price_nano / 1e9:.2f}"}
                for i in world.instances(connection)
            ],
        }


def _levels(clusters: Iterable[world.ClusterRow]) -> tuple[str, ...]:
    """The finest topology any cluster tells of."""
    return max((c.levels for c in clusters), key=lambda levels: len(levels), default=())


Pods = Sequence[tuple[PodPlace, dict[str, Any]]]
"""Places with whose they are."""


def _by_node(held: places.Pods, jobs_: dict[str, JobRow]) -> dict[str, Pods]:
    found: dict[str, list[tuple[PodPlace, dict[str, Any]]]] = {}
    for (job_id, _attempt_number), pods in sorted(held.items()):
        for pod in pods:
            who = {"job": job_id, "team": jobs_[job_id].job.team, "rank": pod.rank}
            found.setdefault(pod.node, []).append((pod, who))
    return dict(found)


def _node(row: Row[Any], pods: Pods) -> dict[str, Any]:
    node = load_node(row.text)
    uses: dict[int, list[dict[str, Any]]] = {d.index: [] for d in node.devices}
    for pod, who in pods:
        _add_uses(uses, pod, who)
    return {
        "node": node.name,
        "model": node.model.name,
        "position": list(node.position),
        "capacity": node.capacity.value,
        "state": node.state.value,
        "cluster": node.cluster,
        "memory_slices": node.model.memory_slices,
        "gpus": [
            {
                "gpu": d.index,
                "healthy": d.healthy,
                "uses": uses[d.index],
                "instances": [_instance(node.model, i.profile, i.start) for i in d.instances],
            }
            for d in node.devices
        ],
    }


def _instance(model: Any, profile: str, start: int) -> dict[str, Any]:
    known = model.profile(profile)
    return {"profile": profile, "start": start, "size": known.size if known else 1}


def _add_uses(uses: dict[int, list[dict[str, Any]]], pod: PodPlace, who: dict[str, Any]) -> None:
    for gpu in pod.gpus:
        uses[gpu].append(who | {"kind": "whole"})
    for s in pod.slices:
        uses[s.gpu].append(who | {"kind": "slice", "profile": s.instance.profile, "start": s.instance.start})
    for share in pod.shares:
        uses[share.gpu].append(who | {"kind": "share", "milli": share.milli})


def teams_view(fleet: Fleet) -> list[dict[str, Any]]:
    """Teams with their projects and members, for forms and checks."""
    with fleet.database.read() as connection:
        return [
            {
                "team": team.name,
                "queue": team.queue,
                "projects": list(team.projects),
                "members": [m.login for m in team.members],
            }
            for team in tenancy.teams(connection)
        ]


def _iso(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None
