"""What the pages and scripts of logged-in people call."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request

from gpufleet.errors import Invalid
from gpufleet.formats.request import parse_request
from gpufleet.portal.asking import Who, fleet_of, principal, same_site
from gpufleet.services import views
from gpufleet.services.change_job import cancel_job, set_priority
from gpufleet.services.explain_job import explain_job
from gpufleet.services.memory_report import memory_report
from gpufleet.services.prompt_tick import prompt_tick
from gpufleet.services.read_logs import read_logs
from gpufleet.services.submit_job import submit_job

router = APIRouter(dependencies=[Depends(principal)])
changes = APIRouter(dependencies=[Depends(same_site)])

JsonBody = Annotated[dict[str, Any], Body()]


@router.get("/jobs")
def jobs(request: Request, team: str | None = None) -> dict[str, Any]:
    return {"jobs": views.jobs_view(fleet_of(request), team=team)}


@router.get("/memory")
def memory(request: Request, team: str | None = None) -> dict[str, Any]:
    return {"jobs": memory_report(fleet_of(request), team=team)}


@router.get("/fleet")
def fleet(request: Request) -> dict[str, Any]:
    return views.fleet_view(fleet_of(request))


@router.get("/teams")
def teams(request: Request, who: Who) -> dict[str, Any]:
    return {"teams": views.teams_view(fleet_of(request)), "me": who.login}


@router.get("/jobs/{job}")
def job(request: Request, job: str) -> dict[str, Any]:
    return explain_job(fleet_of(request), job)


@router.get("/jobs/{job}/logs")
def logs(request: Request, job: str, rank: int = 0, attempt: int | None = None, tail: int = 400) -> dict[str, Any]:
    text = read_logs(fleet_of(request), job, rank=rank, attempt=attempt, tail=min(tail, 5000))
    return {"job": job, "rank": rank, "attempt": attempt, "lines": text.splitlines()}


@changes.post("/jobs", status_code=201)
def submit(request: Request, who: Who, body: JsonBody) -> dict[str, Any]:
    fleet = fleet_of(request)
    submitted = submit_job(fleet, parse_request(body), who)
    prompt_tick(fleet)
    return views.job_view(fleet, submitted.job)


@changes.post("/jobs/{job}/cancel")
def cancel(request: Request, who: Who, job: str, body: JsonBody) -> dict[str, Any]:
    fleet = fleet_of(request)
    job_id = cancel_job(fleet, job, who, str(body.get("why", "")))
    prompt_tick(fleet)
    return views.job_view(fleet, job_id)


@changes.post("/jobs/{job}/priority")
def priority(request: Request, who: Who, job: str, body: JsonBody) -> dict[str, Any]:
    value = body.get("priority")
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"priority must be a whole number from 0 to 1000, not {value!r}.")
    fleet = fleet_of(request)
    job_id = set_priority(fleet, job, value, who)
    prompt_tick(fleet)
    return views.job_view(fleet, job_id)


router.include_router(changes)
