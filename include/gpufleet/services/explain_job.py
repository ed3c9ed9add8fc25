"""Why a job waits, and the cheapest thing that would start it."""

from __future__ import annotations

from typing import Any

from gpufleet.formats.plan import explanation_to_json
from gpufleet.scheduling import explain
from gpufleet.services.change_job import find_job
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.services.memory_report import job_memory
from gpufleet.services.views import job_view


def explain_job(fleet: Fleet, text: str) -> dict[str, Any]:
    """The job's view; for one that waits, the scheduler's own explanation of this moment beside it."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        row = find_job(connection, text)
        snapshot = frozen(connection, fleet, now)
    view = job_view(fleet, row.job.id) | {"memory": job_memory(fleet, row.job.id)}
    if row.state == "pending" and any(p.job.id == row.job.id for p in snapshot.pending):
        view["explanation"] = explanation_to_json(explain(snapshot, fleet.scheduling, now, row.job.id))
    return view
