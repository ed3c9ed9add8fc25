"""From a first run to the right slice: measured on a real sandbox, asked for by likeness, and shown to its team."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.fleets import Played, played
from tests.sandboxes import eventually

from gpufleet.commands import live
from gpufleet.errors import Invalid
from gpufleet.services.explain_job import explain_job
from gpufleet.services.memory_report import memory_report, over_asked
from gpufleet.store import schema as t

NET = {"workload": "net", "batch": 2, "sequence": 2048}
SLEEP = "while :; do sleep 0.1; done"


def using(mib: int, then: str = "exit 0") -> list[str]:
    return ["sh", "-c", f"echo {mib} > $GPUFLEET_DEVICE_MEMORY_FILE; {then}"]


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", database_url=database_url) as found:
        found.tick()
        yield found


@pytest.fixture(scope="module")
def plain_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """One for what no database changes."""
    with played(tmp_path_factory.mktemp("plain") / "home") as found:
        found.tick()
        yield found


def report(fleet: Played, job: str) -> dict[str, Any]:
    """The job's line of the report, empty while there is none."""
    fleet.tick()
    return next((row for row in memory_report(fleet.fleet) if row["job"] == job), {})


def test_the_second_run_gets_the_slice_that_the_first_one_needed(
    fleet: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    first = fleet.submit(gpus=1, workload=NET, command=using(7000))
    fleet.until(first, "succeeded")
    assert (report(fleet, first)["fit"], report(fleet, first)["says"]) == (
        "over-asked",
        "asked a whole H100-80 (80 GiB), never used more than 6.8 GiB; "
        "a 1g.10gb slice would hold it, with 1 of 7 parts of compute",
    )
    with fleet.fleet.database.read() as connection:
        assert over_asked(connection, [first, "unknown"]) == {first: Fraction(7, 8)}, (
            "one of eight memory slices would do"
        )
    second = fleet.submit(like=NET, command=using(7100, SLEEP))
    (where,) = fleet.until(second, "running")["where"]
    assert [s["profile"] for s in where["slices"]] == ["1g.10gb"]
    eventually(lambda: report(fleet, second))
    view = explain_job(fleet.fleet, second)
    derived = "8.0 GiB like 'net' with batch 2 x sequence 2048: 6.8 GiB measured at batch 2 x sequence 2048 of 1 run"
    assert view["memory"]["derived"].startswith(derived)
    live.explain(fleet.fleet, second, as_json=False)
    assert f"memory:  {derived}" in capsys.readouterr().out
    live.memory(fleet.fleet, "vision", as_json=False)
    assert "over-asked" in capsys.readouterr().out


def test_a_job_that_is_killed_for_memory_is_shown_and_raises_the_need(fleet: Played) -> None:
    fleet.until(fleet.submit(gpus=1, workload=NET, command=using(7000)), "succeeded")
    small = fleet.submit(memory_gib=9, workload=NET, command=using(9985, SLEEP))
    says = eventually(lambda: next((s for s in [report(fleet, small).get("says", "")] if "killed" in s), None))
    assert says == "asked 9 GiB and was killed for memory at 9.8 GiB; ask for 11.4 GiB"
    assert memory_report(fleet.fleet)[0]["job"] == small, "what somebody must act on comes first"
    again = fleet.submit(like=NET, command=using(9985, SLEEP))
    (where,) = fleet.until(again, "running")["where"]
    assert [s["profile"] for s in where["slices"]] == ["1g.20gb"]


REFUSED = {
    "a workload nobody has run": (
        {"like": NET},
        "like: nothing was measured of 'net': ask with memory_gib, or run it once",
    ),
    "a share like it": ({"share": 0.5, "like": NET}, "like: nothing was measured of 'net'"),
}


@pytest.mark.parametrize(("asked", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_nobody_has_measured_is_refused_and_leaves_nothing(
    plain_fleet: Played, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid) as refused:
        plain_fleet.submit(**asked)
    assert sentence in str(refused.value)
    with plain_fleet.fleet.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(t.job)).scalar_one() == 0


def test_a_need_that_no_slice_holds_is_refused_by_its_own_key(plain_fleet: Played) -> None:
    plain_fleet.until(plain_fleet.submit(gpus=1, workload="huge", command=using(78_000)), "succeeded")
    with pytest.raises(Invalid, match=r"like: 89\.\d+ GiB is more than any MIG slice of this fleet has"):
        plain_fleet.submit(like="huge")


SAYS = """
import time
from gpufleet.training import start
run = start()
run.memory(5000)
while True:
    run.progress(1)
    time.sleep(0.05)
"""


def test_what_a_job_says_itself_is_measured_too(plain_fleet: Played) -> None:
    env = {"GPUFLEET_PROGRESS_INTERVAL": 0}
    job = plain_fleet.submit(memory_gib=9, workload=NET, command=["python", "-c", SAYS], env=env)
    row = eventually(lambda: report(plain_fleet, job))
    assert (row["fit"], row["peak_mib"], row["says"]) == ("measuring", 5512, "asked 9 GiB, used 5.4 GiB so far")
    assert row["workload"] == NET
