"""Who is asking, and from where: the dependencies every route has."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, HTTPException, Request

from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet

OWN_SITE = ("same-origin", "none")


def principal() -> Principal:
    """The logged-in person; `create_app` puts the edge's own check in its place, and without one nobody is known."""
    raise HTTPException(401, "Nobody is logged in.")


Who = Annotated[Principal, Depends(principal)]


def fleet_of(request: Request) -> Fleet:
    return cast(Fleet, request.app.state.fleet())


def same_site(request: Request) -> None:
    """A cookie travels with a form on somebody else's page; a change must come from ours, as JSON."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITE:
        raise HTTPException(403, "This change was asked for from another site.")
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        raise HTTPException(415, "Send JSON (content-type: application/json).")
