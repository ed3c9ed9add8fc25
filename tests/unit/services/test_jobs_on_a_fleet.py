"""Jobs on a real sandbox and both databases: submitted, adopted, cancelled, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.fleets import Played, played
from tests.sandboxes import eventually

from gpufleet.errors import Forbidden, GpufleetError, Invalid, NotFound
from gpufleet.model.tenancy import Principal
from gpufleet.services.change_job import cancel_claim, cancel_job, live_claims, set_priority
from gpufleet.services.submit_job import Origin
from gpufleet.services.views import fleet_view, job_view, jobs_view
from gpufleet.services.who_asks import who_asks
from gpufleet.store import schema as t

RUN_1 = Origin("gpu_job", "run-1", "run", -1, 1)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", database_url=database_url) as found:
        found.tick()
        yield found


def count(fleet: Played, table: Any) -> int:
    with fleet.fleet.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


REFUSED = {
    "an unknown team": ({"team": "visoin"}, "ada", Invalid, "team 'visoin' is not known"),
    "somebody of another team": ({}, "lin@language", Forbidden, "'lin@language' is not a member of team 'vision'"),
    "a project of nobody": ({"project": "cats"}, "ada", Invalid, "project 'cats' is not one of team 'vision'"),
    "more GPUs in a pod than any node has": ({"gpus": 9}, "ada", Invalid, "gpus: a pod asks for 9 GPUs"),
    "memory no slice has": ({"memory_gib": 81}, "ada", Invalid, "memory_gib: 81 GiB is more than any MIG slice"),
    "memory no card has": ({"gpus": 1, "gpu_memory_gib": 200}, "ada", Invalid, "gpu_memory_gib: 200 GiB"),
    "a share of more memory than a card": ({"share": 0.5, "memory_gib": 100}, "ada", Invalid, "memory_gib: 100 GiB"),
    "a profile of another model": (
        {"profile": "1g.5gb"},
        "ada",
        Invalid,
        "no GPU of this fleet has a MIG profile '1g.5gb'",
    ),
    "a model that is not here": ({"models": ["T4-16"]}, "ada", Invalid, "none of T4-16 is in this fleet"),
}


@pytest.fixture(scope="module")
def quiet_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """One fleet for every request that is refused: a refusal changes nothing."""
    with played(tmp_path_factory.mktemp("quiet") / "home") as found:
        found.tick()
        yield found


@pytest.mark.parametrize(("asked", "who", "kind", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_nothing_behind(
    quiet_fleet: Played, asked: dict[str, Any], who: str, kind: type[GpufleetError], sentence: str
) -> None:
    with pytest.raises(kind) as refused:
        quiet_fleet.submit(who, **{"team": "vision", **asked})
    assert sentence in str(refused.value)
    assert [count(quiet_fleet, table) for table in (t.job, t.claim, t.operation)] == [0, 0, 0]


def test_a_job_runs_is_metered_and_cancelled(fleet: Played) -> None:
    job = fleet.submit(gpus=4)
    fleet.until(job, "running")
    eventually(lambda: _events(fleet, job) == ["allocated"] * 4 or fleet.tick())
    cancel_job(fleet.fleet, job, Principal("ada"))
    assert fleet.until(job, "cancelled")["detail"] == "cancelled by ada"
    assert _events(fleet, job) == ["allocated"] * 4 + ["released"] * 4
    eventually(lambda: not [p for p in fleet.sandbox.cluster().observe().pods if p.job == job] or fleet.tick())


def _events(fleet: Played, job: str) -> list[str]:
    with fleet.fleet.database.read() as connection:
        query = select(t.usage_event.c.event).where(t.usage_event.c.job == job).order_by(t.usage_event.c.event)
        return list(connection.execute(query).scalars())


def test_the_same_try_asks_twice_and_gets_one_job(fleet: Played) -> None:
    assert fleet.submit(origin=RUN_1) == fleet.submit(origin=RUN_1)
    assert count(fleet, t.job) == 1


def test_a_clear_hands_the_job_to_the_new_try_and_the_old_one_cannot_cancel_it(fleet: Played) -> None:
    job = fleet.submit(origin=RUN_1)
    fleet.until(job, "running")
    second = Origin("gpu_job", "run-1", "run", -1, 2)
    assert fleet.submit(origin=second) == job
    assert not cancel_claim(fleet.fleet, RUN_1, "the old try was killed")
    assert [c.try_number for c in live_claims(fleet.fleet)] == [2]
    assert fleet.state(job) == "running"
    assert cancel_claim(fleet.fleet, second, "marked failed")
    fleet.until(job, "cancelled")
    assert live_claims(fleet.fleet) == ()


def test_a_new_try_of_an_ended_job_opens_it_again_with_its_attempts_behind_it(fleet: Played) -> None:
    job = fleet.submit(origin=RUN_1, command="python -c 'raise SystemExit(3)'", gpus=1)
    assert "exit status 3" in fleet.until(job, "failed")["detail"]
    assert fleet.submit(origin=Origin("gpu_job", "run-1", "run", -1, 2)) == job
    assert len(fleet.until(job, "running", "failed")["attempts"]) > 3


def test_a_lead_changes_the_priority_of_the_team_and_nobody_else_does(fleet: Played) -> None:
    job = fleet.submit("vik")
    set_priority(fleet.fleet, job, 80, Principal("ada"))
    assert job_view(fleet.fleet, job)["priority"] == 80
    with pytest.raises(Forbidden, match="may not change jobs of team 'vision'"):
        set_priority(fleet.fleet, job, 1, Principal("lin"))
    other = fleet.submit("ada")
    with pytest.raises(Forbidden, match="only a lead"):
        set_priority(fleet.fleet, other, 1, Principal("vik"))
    with pytest.raises(NotFound, match="there is no job 'nosuch'"):
        cancel_job(fleet.fleet, "nosuch", Principal("ada"))


def test_a_run_without_a_login_is_sent_to_the_command_line(fleet: Played) -> None:
    with pytest.raises(Forbidden, match=r"carries no login.*gpufleet submit"):
        who_asks(fleet.fleet, {"team": "vision"}, None, "gpu_job")
    with pytest.raises(Forbidden, match=r"'root' is not a member of any team.*gpufleet submit"):
        who_asks(fleet.fleet, {"team": "vision"}, "root", "gpu_job")
    assert who_asks(fleet.fleet, {"team": "vision"}, "ada", "gpu_job")[1] == Principal("ada")


SUBMIT = [
    sys.executable, "-m", "gpufleet", "submit", "--team", "vision", "--project", "digits", "--pods", "2", "--gpus", "8",
    "--json", "--", "python", "-c", "import time; time.sleep(600)",
]  # fmt: skip


def test_four_submit_at_once_and_exactly_one_gang_gets_the_room(fleet: Played) -> None:
    """Four processes, one gang's room: one placed, three pending, each with its reason."""
    env = {**fleet.environment, "GPUFLEET_USER": "ada", "PATH": "/usr/bin:/bin"}
    calls = [
        subprocess.Popen(SUBMIT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = [call.communicate(timeout=60) for call in calls]
    assert [call.returncode for call in calls] == [0] * 4, answers
    ids = {json.loads(out)["job"] for out, _ in answers}

    def settled() -> list[dict[str, Any]]:
        fleet.tick()
        rows = [j for j in jobs_view(fleet.fleet) if j["job"] in ids]
        return rows if sorted(r["state"] for r in rows) == ["pending"] * 3 + ["running"] else []

    rows = eventually(settled)
    waiting = [r for r in rows if r["state"] == "pending"]
    assert sorted(r["queue_position"] for r in waiting) == [1, 2, 3]
    assert all(r["reason"] and r["detail"] for r in waiting), waiting
    used = [u for n in fleet_view(fleet.fleet)["nodes"] for g in n["gpus"] for u in g["uses"]]
    assert (len(used), len({u["job"] for u in used})) == (16, 1)
