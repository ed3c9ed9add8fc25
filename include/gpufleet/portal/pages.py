"""The pages. They are drawn in the browser from the API, so they update by themselves; static files need a login too."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, select_autoescape

from gpufleet.errors import NotFound
from gpufleet.model.tenancy import Principal
from gpufleet.portal.asking import Who, fleet_of, principal
from gpufleet.services.submit_job import claim_key
from gpufleet.services.wait_for_jobs import claimed_job

HERE = Path(__file__).parent
STATIC = {p.name: p for p in sorted((HERE / "static").iterdir()) if p.is_file()}

router = APIRouter(dependencies=[Depends(principal)], default_response_class=HTMLResponse)


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=select_autoescape(default=True))


def _page(request: Request, who: Principal, name: str, **values: object) -> HTMLResponse:
    # relative links only: the portal may be mounted anywhere, and shown inside a frame
    text = _templates().get_template(name).render(root=_up(request), me=who.login, **values)
    return HTMLResponse(text)


def _up(request: Request) -> str:
    """From the page's path back to the portal's own root, as a relative link."""
    path = request.url.path.removeprefix(request.scope.get("root_path", "")).lstrip("/")
    return "../" * path.count("/") or "./"


@router.get("/")
def fleet(request: Request, who: Who) -> Response:
    return _page(request, who, "fleet.html", banner=fleet_of(request).banner)


@router.get("/job/{job}")
def job(request: Request, who: Who, job: str) -> Response:
    return _page(request, who, "job.html", job=job)


@router.get("/memory")
def memory(request: Request, who: Who) -> Response:
    return _page(request, who, "memory.html")


@router.get("/logs/{job}")
def logs(request: Request, who: Who, job: str) -> Response:
    return _page(request, who, "logs.html", job=job)


@router.get("/task")
def task(request: Request, who: Who, dag: str, run: str, task: str, map_index: str = "-1") -> Response:
    """From a task instance of Airflow to its job. On an unmapped task Airflow leaves the placeholder as it is."""
    index = int(map_index) if re.fullmatch(r"\d{1,9}", map_index, re.ASCII) else -1
    found = claimed_job(fleet_of(request), claim_key(dag, run, task, index))
    if found is None:
        return _page(request, who, "none.html", what=f"{dag} / {task}")
    return RedirectResponse(f"job/{found}")


@router.get("/static/{name}")
def static(name: str) -> Response:
    if name not in STATIC:
        raise NotFound(f"there is no {name} here.")
    return FileResponse(STATIC[name])
