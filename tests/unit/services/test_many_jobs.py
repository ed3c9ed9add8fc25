"""Many jobs cost the database no more questions than few: what is asked and written is asked and written together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import event
from tests.obliging import Obliging

from gpufleet.clock import SystemClock
from gpufleet.formats.request import parse_request
from gpufleet.model.tenancy import Member, Principal, Queue, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.apply_operations import WORKERS
from gpufleet.services.fleet import Fleet
from gpufleet.services.observe import observe
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import one_round
from gpufleet.store import jobs
from gpufleet.store.database import Database

FEW, MANY = 4, 120


def a_fleet(database: Database, home: Path) -> Fleet:
    """With room for all."""
    fleet = Fleet(
        "f", home, database, {"main": Obliging((FEW + MANY) // 8 + 1)}, {}, SystemClock(), str(home / "saves")
    )
    apply_config(fleet, (Team("t", "q", ("p",), (Member("ada"),)),), (Queue("q", "root"),), {})
    observe(fleet)
    return fleet


def submit(fleet: Fleet, count: int) -> None:
    """So many one-GPU jobs more."""
    for number in range(count):
        request = {"team": "t", "project": "p", "name": f"j{number}", "gpus": 1, "command": "x"}
        submit_job(fleet, parse_request(request), Principal("ada"))


@contextmanager
def questions(database: Database) -> Iterator[list[str]]:
    """Every statement that the database is given."""
    asked: list[str] = []

    def hear(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", hear)
    yield asked
    event.remove(database.engine, "before_cursor_execute", hear)


def test_a_round_asks_no_more_for_many_jobs_than_for_few(database: Database, tmp_path: Path) -> None:
    fleet = a_fleet(database, tmp_path)
    starting, quiet = {}, {}
    for number in (FEW, MANY):
        submit(fleet, number)
        with questions(database) as asked:
            one_round(fleet)
        starting[number] = len(asked)
        with questions(database) as asked:
            one_round(fleet)
        quiet[number] = len(asked)
    with database.read() as connection:
        assert [row.state for row in jobs.live(connection)] == ["running"] * (FEW + MANY)
    assert quiet[MANY] == quiet[FEW]
    more_batches = -(-MANY // WORKERS) - 1
    assert starting[MANY] <= starting[FEW] + 15 * more_batches  # one by one it would be hundreds
