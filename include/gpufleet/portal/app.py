"""The portal as a FastAPI application: every route asks who is there before anything else.

The Airflow edge supplies the Fleet and who is asking; so does anything else that wants to run it on its own.
Interactive docs and the schema are off: they would be open to anyone when mounted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from gpufleet.errors import Forbidden, GpufleetError, Invalid, NotFound, Temporary
from gpufleet.model.tenancy import Principal
from gpufleet.portal import api, claims, pages
from gpufleet.portal.asking import principal
from gpufleet.services.fleet import Fleet

STATUS = ((Forbidden, 403), (NotFound, 404), (Invalid, 422), (Temporary, 503), (GpufleetError, 500))
"""Our errors as HTTP, the most special first."""


def create_app(fleet: Callable[[], Fleet], who: Callable[..., Principal | Awaitable[Principal]]) -> FastAPI:
    """`who` is a FastAPI dependency; it raises HTTPException 401 for someone it does not know."""
    app = FastAPI(title="gpufleet", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.fleet = fleet
    app.dependency_overrides[principal] = who
    app.include_router(pages.router)
    app.include_router(api.router, prefix="/api")
    app.include_router(claims.router, prefix="/api")
    app.add_exception_handler(GpufleetError, _refused)
    return app


def _refused(_request: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return JSONResponse({"detail": str(error)}, status_code=status)
