"""The operator's two ways in are one contract: through the services, and through the portal with a team's token."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fastapi import HTTPException
from tests.fleets import SLEEP, Played, played
from tests.portals import serving

from gpufleet.errors import Forbidden, Invalid
from gpufleet.model.tenancy import Principal
from gpufleet.services.submit_job import Origin
from gpufleet.services.team_tokens import make_token
from gpufleet_airflow.door import Door, PortalDoor, ServiceDoor

ASK = {"team": "vision", "project": "digits", "command": SLEEP, "gpus": 1}


def nobody() -> Principal:
    raise HTTPException(401, "Nobody is logged in.")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played(tmp_path_factory.mktemp("door") / "home") as found:
        found.tick()
        yield found


@pytest.fixture(scope="module")
def portal(fleet: Played) -> Iterator[str]:
    """The portal on a loopback port, where nobody is logged in: only tokens open it."""
    with serving(fleet.fleet, nobody) as address:
        yield address


@pytest.fixture(params=["services", "portal"])
def door(request: pytest.FixtureRequest, fleet: Played) -> Door:
    if request.param == "services":
        return ServiceDoor(fleet.environment)
    return PortalDoor(request.getfixturevalue("portal"), make_token(fleet.fleet, "vision", Principal("ada")))


def origin(name: str, try_number: int = 1) -> Origin:
    return Origin("nightly", f"{name}-{time.monotonic_ns()}", "train", -1, try_number)


def test_a_job_is_submitted_watched_and_cancelled(fleet: Played, door: Door) -> None:
    asked = origin("whole")
    job = door.submit(ASK, "ada", asked)
    assert door.submit(ASK, "ada", asked) == job
    fleet.until(job, "running")
    assert door.states([job, "nosuch"]) == {job: "running"}
    assert door.cancel(asked, "marked failed")
    fleet.until(job, "cancelled")
    assert (door.result(job)["state"], door.result(job)["reason"]) == ("cancelled", "marked failed")


def test_an_older_try_cancels_nothing(fleet: Played, door: Door) -> None:
    first = origin("older")
    second = Origin(first.dag_id, first.run_id, first.task_id, -1, 2)
    job = door.submit(ASK, "ada", first)
    assert door.submit(ASK, "ada", second) == job
    assert not door.cancel(first, "killed")
    assert door.cancel(second, "killed")
    fleet.until(job, "cancelled")


def test_a_wrong_request_is_one_sentence(door: Door) -> None:
    with pytest.raises(Invalid, match="gpus must be a whole number above 0"):
        door.submit({**ASK, "gpus": 0}, "ada", origin("wrong"))


def test_a_token_speaks_for_its_team_only(fleet: Played, portal: str) -> None:
    lins = PortalDoor(portal, make_token(fleet.fleet, "language", Principal("lin")))
    with pytest.raises(Invalid, match="project 'digits' is not one of team 'language'"):
        lins.submit(ASK, "ada", origin("foreign"))
    mine = fleet.submit("ada", gpus=1)
    assert lins.states([mine]) == {}
    assert lins.result(mine)["state"] == "unknown"
    with pytest.raises(Forbidden, match="no valid team token"):
        PortalDoor(portal, "gpf_wrong").states([mine])
    with pytest.raises(Forbidden, match="is not a lead"):
        make_token(fleet.fleet, "vision", Principal("vik"))
