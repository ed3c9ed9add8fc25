"""What the bill charges as over quota is what the scheduler gave beyond what the queue deserves."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select
from tests.builders import on, queue
from tests.obliging import Obliging

from gpufleet.clock import SystemClock
from gpufleet.formats.request import parse_request
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.tenancy import Member, Principal, Queue, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.fleet import Fleet
from gpufleet.services.quota_marks import GUARANTEED, OVER_QUOTA, Marks
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import one_round
from gpufleet.store import schema as t
from gpufleet.store.database import Database

MODELS = {"n1": gpu_model("H100-80"), "n2": gpu_model("A100-80")}

GIVEN = {
    "within": ({"*": 2}, [on("n1", 0, 1)], [GUARANTEED]),
    "nothing is deserved": ({}, [on("n1", 0)], [OVER_QUOTA]),
    "the one beyond": ({"*": 2}, [on("n1", 0), on("n1", 1), on("n1", 2)], [GUARANTEED, GUARANTEED, OVER_QUOTA]),
    "too large a pod is over quota as a whole": ({"*": 1}, [on("n1", 0, 1)], [OVER_QUOTA]),
    "of another model": ({"A100-80": 2}, [on("n1", 0), on("n2", 0)], [OVER_QUOTA, GUARANTEED]),
    "slices and shares count their part": (
        {"*": 1},
        [on("n1", slices=["0:3g.40gb@0"]), on("n1", shares=["1:500"]), on("n1", shares=["1:500"])],
        [GUARANTEED, GUARANTEED, OVER_QUOTA],
    ),
}


@pytest.mark.parametrize(("deserved", "places", "want"), GIVEN.values(), ids=GIVEN)
def test_marks(deserved: dict[str, int], places: list, want: list[str]) -> None:  # type: ignore[type-arg]
    marks = Marks([queue("a", deserved=deserved)], MODELS, [])
    found = [next(iter(marks.give("a", [place]).values())) for place in places]
    assert found == want


def test_what_is_held_already_counts() -> None:
    marks = Marks([queue("a", deserved=2)], MODELS, [("a", (on("n1", 0, 1),))])
    assert list(marks.give("a", [on("n1", 2)]).values()) == [OVER_QUOTA]


def test_the_ledger_has_the_mark_of_every_allocation(database: Database, tmp_path: Path) -> None:
    fleet = Fleet("f", tmp_path, database, {"main": Obliging(1)}, {}, SystemClock(), str(tmp_path / "saves"))
    owed = queue("q", deserved=2)
    apply_config(fleet, (Team("t", "q", ("p",), (Member("ada"),)),), (Queue("q", "root", owed.deserved),), {})
    one_round(fleet)
    for name in ("first", "second", "third"):
        request = {"team": "t", "project": "p", "name": name, "gpus": 1, "command": "x"}
        submit_job(fleet, parse_request(request), Principal("ada"))
    one_round(fleet)
    one_round(fleet)
    with database.read() as connection:
        events = connection.execute(select(t.usage_event.c.facts).where(t.usage_event.c.event == "allocated")).scalars()
        assert sorted(facts["quota"] for facts in events) == [GUARANTEED, GUARANTEED, OVER_QUOTA]
