"""What `GpuJobOperator` calls from a team's shared worker, which has no database: the team's token answers for it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Request
from pydantic import BaseModel, Field

from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Principal
from gpufleet.portal.asking import fleet_of
from gpufleet.services.change_job import cancel_claim
from gpufleet.services.prompt_tick import prompt_tick
from gpufleet.services.submit_job import Origin, submit_job
from gpufleet.services.team_tokens import team_of_token
from gpufleet.services.wait_for_jobs import job_result, job_states

TOKEN = "X-Gpufleet-Token"


class Try(BaseModel):
    """One try of an Airflow task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = Field(default=-1, ge=-1, le=2**31 - 1)
    try_number: int = Field(ge=0, le=2**31 - 1)

    def origin(self, team: str) -> Origin:
        """Its key is the team's own, so one team's Airflow can never name another's claim."""
        return Origin(f"{team}:{self.dag_id}", self.run_id, self.task_id, self.map_index, self.try_number)


class Claim(BaseModel):
    request: dict[str, Any]
    origin: Try


class Cancel(BaseModel):
    origin: Try
    why: str = ""


def token_team(request: Request) -> str:
    """The team whose token came with the call; 401 otherwise."""
    team = team_of_token(fleet_of(request), request.headers.get(TOKEN, ""))
    if team is None:
        raise HTTPException(401, f"The header {TOKEN} carries no valid team token; 'gpufleet token TEAM' makes one.")
    return team


router = APIRouter(dependencies=[Depends(token_team)])


@router.post("/claims")
def claim(request: Request, body: Claim) -> dict[str, Any]:
    fleet, team = fleet_of(request), token_team(request)
    asked = parse_request({**body.request, "team": team})
    submitted = submit_job(fleet, asked, Principal(f"token:{team}", is_admin=True), body.origin.origin(team))
    prompt_tick(fleet)
    return {"job": submitted.job, "how": submitted.how}


@router.post("/claims/cancel")
def cancel(request: Request, body: Cancel) -> dict[str, Any]:
    return {
        "cancelled": cancel_claim(
            fleet_of(request), body.origin.origin(token_team(request)), body.why or "its task is over"
        )
    }


@router.post("/states")
def states(request: Request, jobs: Annotated[list[str], Body(embed=True)]) -> dict[str, str]:
    return job_states(fleet_of(request), jobs, team=token_team(request))


@router.post("/result")
def result(request: Request, job: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
    return job_result(fleet_of(request), job, team=token_team(request))
