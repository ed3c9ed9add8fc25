"""Asked against measured GPU memory: of one job, and of all jobs of a team. JSON-ready, for portal and CLI alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection

from gpufleet.model.hardware import GpuModel
from gpufleet.model.workload import Job, Share, Slice, Workload
from gpufleet.placement.geometry import geometry
from gpufleet.placement.memory import MemoryPoint, Need, need
from gpufleet.placement.sizing import Fit, Sizing, sizing
from gpufleet.services.asked import gpus_asked
from gpufleet.services.change_job import find_job
from gpufleet.services.fleet import Fleet
from gpufleet.store import jobs, memory, places, world
from gpufleet.store.chunks import chunks

ORDER = (Fit.UNDER, Fit.OVER, Fit.MEASURING, Fit.FITS)
"""What somebody should act on comes first."""


def job_memory(fleet: Fleet, text: str) -> dict[str, Any]:
    """What a job asked for, used, and how that was derived; raises NotFound."""
    with fleet.database.read() as connection:
        job = find_job(connection, text).job
        return _rows(connection, [job])[0]


def memory_report(fleet: Fleet, *, team: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """The newest jobs whose memory was measured: first those that asked for too little, then for too much."""
    with fleet.database.read() as connection:
        recent = [r.job for r in jobs.recent(connection, limit) if team is None or r.job.team == team]
        rows = _rows(connection, recent)
    order = {fit.value: place for place, fit in enumerate(ORDER)}
    return sorted((r for r in rows if r["fit"]), key=lambda r: order[r["fit"]])


def over_asked(connection: Connection, of: Iterable[str]) -> dict[str, Fraction]:
    """Of these jobs by id, those that asked for too much: which part of what they held they could have done without."""
    found: dict[str, Fraction] = {}
    for names in chunks(of):
        peaks = memory.peaks(connection, names)
        if not peaks:
            continue
        known, ran_on = jobs.get_many(connection, peaks), places.newest_nodes(connection, list(peaks))
        models = {node.name: node.model for node in world.nodes(connection)}
        for name, row in known.items():
            model = _model(row.job, models, ran_on.get(name, ""))
            judged = _sizing(connection, row.job, peaks[name], model)
            if judged and judged.fit is Fit.OVER and model:
                found[name] = _spare(connection, row.job, peaks[name], model)
    return found


def _spare(connection: Connection, job: Job, peak: memory.Peak, model: GpuModel) -> Fraction:
    """By memory slices of the card, or for a share by its memory."""
    demand, point = job.pod_sets[0].demand, peak.point(job.workload or Workload(job.id))
    found = _need(connection, job, point, is_settled=peak.settled) if point else None
    if found is None:
        return Fraction(0)
    if isinstance(demand, Share):
        return 1 - Fraction(found.memory_mib, demand.memory_mib)
    layouts, compute = geometry(model), demand.compute if isinstance(demand, Slice) else 1
    enough = next(iter(layouts.suitable(Slice(found.memory_mib, compute))))
    held = next((p.size for p in layouts.suitable(demand)), 0) if isinstance(demand, Slice) else 0
    return 1 - Fraction(enough.size, held or model.memory_slices)


def _rows(connection: Connection, of: Sequence[Job]) -> list[dict[str, Any]]:
    names = [job.id for job in of]
    peaks, ran_on = memory.peaks(connection, names), places.newest_nodes(connection, names)
    models = {node.name: node.model for node in world.nodes(connection)} if peaks else {}
    return [_row(connection, job, peaks.get(job.id), _model(job, models, ran_on.get(job.id, ""))) for job in of]


def _model(job: Job, models: Mapping[str, GpuModel], node: str) -> GpuModel | None:
    """The model it ran on; where that node has gone, one that it may run on."""
    allowed = (m for _, m in sorted(models.items()) if not job.models or m.name in job.models)
    return models.get(node) or next(allowed, None)


def _row(connection: Connection, job: Job, peak: memory.Peak | None, model: GpuModel | None) -> dict[str, Any]:
    found = _sizing(connection, job, peak, model)
    return {
        "job": job.id,
        "name": job.name,
        "team": job.team,
        "project": job.project,
        "asks": gpus_asked(job),
        "workload": _words(job.workload),
        "derived": job.pod_sets[0].derived,
        "asked_mib": found.asked_mib if found else None,
        "peak_mib": found.peak_mib if found else None,
        "fit": found.fit.value if found else "",
        "says": found.says if found else "",
    }


def _words(workload: Workload | None) -> dict[str, Any] | None:
    if workload is None:
        return None
    return {"workload": workload.name, "batch": workload.batch, "sequence": workload.sequence}


def _sizing(connection: Connection, job: Job, peak: memory.Peak | None, model: GpuModel | None) -> Sizing | None:
    """None where nothing was measured, or no card of the fleet is one the job may use."""
    ran = job.workload or Workload(job.id)
    point = peak.point(ran) if peak else None
    if peak is None or point is None or model is None:
        return None
    return sizing(job, model, point, _need(connection, job, point, is_settled=peak.settled))


def _need(connection: Connection, job: Job, point: MemoryPoint, *, is_settled: bool) -> Need | None:
    """By all runs of its workload; by its own alone where it did not say what it runs."""
    if job.workload is None:
        points: tuple[MemoryPoint, ...] = (point,) if is_settled else ()
    else:
        points = memory.points(connection, job.workload.name, job.team)
        if not is_settled and not point.killed:
            # what a run has used so far is the least it needs, as with one that was killed
            points += (replace(point, killed=True),)
    found = need(points, point.workload, job.kind)
    return found if isinstance(found, Need) else None
