"""The portal inside Airflow's UI: Airflow says who is asking, the portal does the rest."""

from __future__ import annotations

import os
from functools import cache

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep

from gpufleet.bootstrap import fleet_from
from gpufleet.model.tenancy import Principal
from gpufleet.portal.app import create_app
from gpufleet.services.fleet import Fleet


@cache
def fleet() -> Fleet:
    """This process's fleet, made with the first request."""
    return fleet_from(os.environ)


async def who(user: GetUserDep) -> Principal:
    """Airflow's own dependency does the checking (Bearer header, else the UI's cookie) and answers 401 to anyone else."""
    admin = get_auth_manager().is_authorized_configuration(method="PUT", user=user)
    return Principal(str(user.get_name()), is_admin=bool(admin))


app = create_app(fleet, who)
