"""A team sets priorities up to its own ceiling; the platform may go above it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests.fleets import Played, played

from gpufleet.errors import Forbidden
from gpufleet.model.tenancy import Principal
from gpufleet.services.change_job import set_priority
from gpufleet.services.views import job_view
from gpufleet.store import schema as t
from gpufleet.store import tenancy


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    """Team vision may go up to 80."""
    with played(tmp_path / "home", database_url=database_url) as found:
        with found.fleet.database.write() as connection:
            teams = tenancy.teams(connection)
            lowered = tuple(replace(team, priority_ceiling=80) if team.name == "vision" else team for team in teams)
            tenancy.replace_tenancy(connection, lowered, tenancy.queues(connection))
        found.tick()
        yield found


def test_a_team_asks_for_priorities_up_to_its_ceiling(fleet: Played) -> None:
    assert job_view(fleet.fleet, fleet.submit("ada", priority=80))["priority"] == 80
    with pytest.raises(Forbidden, match=r"priority 81 is above the ceiling of team 'vision', 80; ask the platform"):
        fleet.submit("ada", priority=81)
    with fleet.fleet.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(t.job)).scalar_one() == 1


def test_a_lead_stays_below_the_ceiling_and_the_platform_does_not_have_to(fleet: Played) -> None:
    job = fleet.submit("ada")
    with pytest.raises(Forbidden, match="above the ceiling of team 'vision', 80"):
        set_priority(fleet.fleet, job, 90, Principal("ada"))
    assert job_view(fleet.fleet, job)["priority"] == 50
    set_priority(fleet.fleet, job, 90, Principal("ops"))
    assert job_view(fleet.fleet, job)["priority"] == 90


def test_other_teams_keep_their_own_ceiling(fleet: Played) -> None:
    assert job_view(fleet.fleet, fleet.submit("lin", priority=1000))["priority"] == 1000
