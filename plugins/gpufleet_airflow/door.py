"""How Airflow reaches the fleet: through the services where this process has the database, else through the portal.

Our own processes (scheduler, triggerer, api-server of the platform) have `GPUFLEET_HOME`; a team's shared worker has
only the Airflow connection `gpufleet_default` with the portal's address and the team's token.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, Final, Protocol

from gpufleet.errors import Forbidden, Invalid
from gpufleet.services.submit_job import Origin

CONNECTION: Final = "gpufleet_default"


class Door(Protocol):
    """The few things the operator needs."""

    def submit(self, raw: Mapping[str, Any], login: str | None, origin: Origin) -> str:
        """Submit (or adopt) and tick once; the job's id. Raises Invalid or Forbidden with one sentence."""
        ...

    def states(self, ids: Iterable[str]) -> dict[str, str]:
        """job -> state, for those that exist."""
        ...

    def result(self, job: str) -> dict[str, Any]:
        """What the finished task returns."""
        ...

    def cancel(self, origin: Origin, why: str) -> bool:
        """Cancel the job of a try that is over, unless a newer try has claimed it."""
        ...


class ServiceDoor:
    """Straight to the services, in this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        from gpufleet.bootstrap import fleet_from
        from gpufleet_airflow.connections import airflow_connection

        self.fleet = fleet_from(environment, connections=airflow_connection)

    def submit(self, raw: Mapping[str, Any], login: str | None, origin: Origin) -> str:
        from gpufleet.formats.request import parse_request
        from gpufleet.services.prompt_tick import prompt_tick
        from gpufleet.services.submit_job import submit_job
        from gpufleet.services.who_asks import who_asks

        raw, principal = who_asks(self.fleet, raw, login, origin.dag_id)
        submitted = submit_job(self.fleet, parse_request(raw), principal, origin)
        prompt_tick(self.fleet, wait=False)  # whoever ticks now serves us too; a worker slot is not for waiting
        return submitted.job

    def states(self, ids: Iterable[str]) -> dict[str, str]:
        from gpufleet.services.wait_for_jobs import job_states

        return job_states(self.fleet, ids)

    def result(self, job: str) -> dict[str, Any]:
        from gpufleet.services.wait_for_jobs import job_result

        return job_result(self.fleet, job)

    def cancel(self, origin: Origin, why: str) -> bool:
        from gpufleet.services.change_job import cancel_claim

        return cancel_claim(self.fleet, origin, why)


class PortalDoor:
    """Through the portal's API, as the team that the token belongs to."""

    def __init__(self, url: str, token: str) -> None:
        import httpx

        self._http = httpx.Client(base_url=url.rstrip("/") + "/api/", headers={"X-Gpufleet-Token": token}, timeout=20)

    def submit(self, raw: Mapping[str, Any], login: str | None, origin: Origin) -> str:
        del login  # the portal knows the team by its token, and takes nobody's word for a person
        return str(self._call("claims", {"request": dict(raw), "origin": asdict(origin)})["job"])

    def states(self, ids: Iterable[str]) -> dict[str, str]:
        return dict(self._call("states", {"jobs": sorted(ids)}))

    def result(self, job: str) -> dict[str, Any]:
        return dict(self._call("result", {"job": job}))

    def cancel(self, origin: Origin, why: str) -> bool:
        return bool(self._call("claims/cancel", {"origin": asdict(origin), "why": why})["cancelled"])

    def _call(self, path: str, body: Mapping[str, Any]) -> Any:
        import httpx

        from gpufleet.errors import Temporary

        try:
            answer = self._http.post(path, json=body)
        except httpx.TransportError as e:
            raise Temporary(f"the portal does not answer: {e}") from e
        if answer.status_code >= 500:
            raise Temporary(f"the portal answered {answer.status_code}")
        if answer.status_code >= 400:
            kind = Forbidden if answer.status_code in (401, 403) else Invalid
            raise kind(str(answer.json().get("detail", answer.text)))
        return answer.json()


def door() -> Door:
    """This process's way in, made on first use and never shared across a fork."""
    return _door(os.getpid())


@cache
def _door(_pid: int) -> Door:
    if os.environ.get("GPUFLEET_HOME"):
        return ServiceDoor(os.environ)
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(CONNECTION)
    if not connection.host or not connection.password:
        raise Invalid(
            f"The Airflow connection '{CONNECTION}' needs the portal's address as host and the team's token as password."
        )
    return PortalDoor(connection.host, connection.password)
