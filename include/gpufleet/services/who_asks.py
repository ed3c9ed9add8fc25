"""For whom a run of Airflow asks: the login it carries, or the team that owns the DAG. Never a param's word for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.errors import Forbidden
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.store import tenancy


def who_asks(fleet: Fleet, raw: Mapping[str, Any], login: str | None, dag_id: str) -> tuple[dict[str, Any], Principal]:
    """(the request with its team settled, who asks). Raises Forbidden with one sentence."""
    with fleet.database.read() as connection:
        teams = tenancy.teams(connection)
    owner = next((team for team in teams if dag_id in team.dags), None)
    if owner is not None:
        # a team's own DAG acts for the team, whoever or whatever started the run
        return {**raw, "team": owner.name}, Principal(f"dag:{dag_id}", is_admin=True)
    if not login:
        raise Forbidden(
            f"This run of {dag_id} carries no login, so no team answers for it; trigger it in the UI or by REST, or use "
            "'gpufleet submit' with GPUFLEET_USER set."
        )
    if not any(member.login == login for team in teams for member in team.members):
        raise Forbidden(
            f"'{login}' is not a member of any team in teams.yaml; ask your lead, or use 'gpufleet submit' "
            "with GPUFLEET_USER set."
        )
    return dict(raw), Principal(login)
