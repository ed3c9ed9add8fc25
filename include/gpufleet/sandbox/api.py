"""The door: HTTP routes, each one verb or one view. Every request carries the bearer token of `sandbox.json`."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel

from gpufleet.errors import Forbidden, GpufleetError, Invalid
from gpufleet.model.hardware import MigInstance
from gpufleet.sandbox import gangs, machines, market, views
from gpufleet.sandbox.caretaker import advance, turn
from gpufleet.sandbox.door import kind_of
from gpufleet.sandbox.records import GangAsk
from gpufleet.sandbox.site import Site


class AttemptBody(BaseModel):
    job: str
    attempt: int


class StopBody(AttemptBody):
    grace: timedelta


class SaveBody(AttemptBody):
    number: int


class NodeBody(BaseModel):
    node: str


class CordonBody(NodeBody):
    on: bool


class DeviceBody(NodeBody):
    gpu: int


class HealthBody(DeviceBody):
    healthy: bool


class RepartitionBody(DeviceBody):
    destroy: tuple[MigInstance, ...] = ()
    create: tuple[MigInstance, ...] = ()


class LaunchBody(BaseModel):
    offering: str
    count: int
    token: str


class NameBody(BaseModel):
    name: str


class ReclaimBody(NodeBody):
    notice_seconds: float | None = None
    then_unavailable: bool = False


class AvailabilityBody(BaseModel):
    offering: str
    available: int


class ClockBody(BaseModel):
    to: AwareDatetime


def build_app(site: Site, token: str) -> FastAPI:
    def known_caller(request: Request) -> None:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise Forbidden("This needs the token from sandbox.json, as a bearer token.")

    app = FastAPI(title="gpufleet sandbox", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(GpufleetError, _told)
    app.add_exception_handler(RequestValidationError, _told_invalid)
    locked = Depends(known_caller)
    for router in (
        _cluster_routes(site),
        _node_routes(site),
        _cloud_routes(site),
        _weather_routes(site),
        _people_routes(site),
    ):
        app.include_router(router, prefix="/v1", dependencies=[locked])
    return app


def _told(_: Request, error: Exception) -> JSONResponse:
    kind, status = kind_of(error) if isinstance(error, GpufleetError) else ("temporary", 500)
    return JSONResponse({"error": kind, "message": str(error)}, status)


def _told_invalid(request: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    where = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
    return _told(request, Invalid(f"The request cannot be read: {where}."))


def _do(site: Site, verb: Callable[[], object]) -> JSONResponse:
    with turn(site):
        verb()
    return JSONResponse({})


def _show(site: Site, view: Callable[[], Any]) -> JSONResponse:
    with site.lock:
        advance(site)
        return JSONResponse(view())


def _cluster_routes(site: Site) -> APIRouter:
    router = APIRouter()

    @router.get("/observation")
    def observe() -> JSONResponse:
        return _show(site, lambda: views.observation(site))

    @router.post("/gangs")
    def launch(gang: GangAsk) -> JSONResponse:
        return _do(site, lambda: gangs.launch(site, gang))

    @router.post("/gangs/stop")
    def stop(body: StopBody) -> JSONResponse:
        return _do(site, lambda: gangs.stop(site, body.job, body.attempt, body.grace))

    @router.post("/gangs/remove")
    def remove(body: AttemptBody) -> JSONResponse:
        return _do(site, lambda: gangs.remove(site, body.job, body.attempt))

    @router.post("/gangs/save")
    def request_save(body: SaveBody) -> JSONResponse:
        return _do(site, lambda: gangs.request_save(site, body.job, body.attempt, body.number))

    @router.get("/logs")
    def logs(job: str, attempt: int, rank: int, tail: int = 200) -> JSONResponse:
        return _show(site, lambda: {"text": gangs.logs(site, job, attempt, rank, tail=tail)})

    return router


def _node_routes(site: Site) -> APIRouter:
    router = APIRouter()

    @router.post("/nodes/repartition")
    def repartition(body: RepartitionBody) -> JSONResponse:
        return _do(
            site, lambda: machines.repartition(site, body.node, body.gpu, destroy=body.destroy, create=body.create)
        )

    @router.post("/nodes/cordon")
    def cordon(body: CordonBody) -> JSONResponse:
        return _do(site, lambda: machines.cordon(site, body.node, on=body.on))

    @router.post("/nodes/fail")
    def fail(body: NodeBody) -> JSONResponse:
        return _do(site, lambda: machines.fail(site, body.node))

    @router.post("/devices/health")
    def health(body: HealthBody) -> JSONResponse:
        return _do(site, lambda: machines.set_health(site, body.node, body.gpu, healthy=body.healthy))

    return router


def _cloud_routes(site: Site) -> APIRouter:
    router = APIRouter(prefix="/cloud")

    @router.get("/offerings")
    def offerings() -> JSONResponse:
        return _show(site, lambda: [views.offering(site.book.stock[name]) for name in sorted(site.book.stock)])

    @router.get("/instances")
    def instances() -> JSONResponse:
        return _show(site, lambda: [views.instance(bought) for bought in market.instances(site)])

    @router.post("/instances")
    def launch(body: LaunchBody) -> JSONResponse:
        with turn(site):
            bought = market.launch(site, body.offering, body.count, body.token)
        return JSONResponse([views.instance(one) for one in bought])

    @router.post("/terminate")
    def terminate(body: NameBody) -> JSONResponse:
        return _do(site, lambda: market.terminate(site, body.name))

    return router


def _weather_routes(site: Site) -> APIRouter:
    """What tests and the demo let happen to the cloud."""
    router = APIRouter(prefix="/cloud")

    @router.post("/reclaim")
    def reclaim(body: ReclaimBody) -> JSONResponse:
        notice = None if body.notice_seconds is None else timedelta(seconds=body.notice_seconds)

        with turn(site):
            found = market.reclaim(site, body.node, notice, then_unavailable=body.then_unavailable)
        return JSONResponse(views.notice(found))

    @router.post("/availability")
    def availability(body: AvailabilityBody) -> JSONResponse:
        return _do(site, lambda: market.set_available(site, body.offering, body.available))

    return router


def _people_routes(site: Site) -> APIRouter:
    router = APIRouter()

    @router.get("/state")
    def state() -> JSONResponse:
        return _show(site, lambda: views.state(site))

    @router.post("/clock")
    def clock(body: ClockBody) -> JSONResponse:
        return _do(site, lambda: site.move_ledger(body.to))

    return router
