"""What Airflow's runs look at: notices until everyone runs again, layout changes until the node shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.obliging import Obliging

from gpufleet.clock import SystemClock
from gpufleet.clusters.base import Observation
from gpufleet.errors import NotFound
from gpufleet.formats.request import parse_request
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.model.hardware import Device, MigInstance, NodeState
from gpufleet.model.tenancy import Member, Principal, Queue, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.fleet import Fleet
from gpufleet.services.interruptions import interruption_view, open_interruptions
from gpufleet.services.repartitions import open_repartitions, repartition_view
from gpufleet.services.submit_job import submit_job
from gpufleet.services.tick import one_round
from gpufleet.store import operations
from gpufleet.store.database import Database

NOW = datetime(2026, 3, 10, tzinfo=UTC)


class Taken(Obliging):
    """A cluster whose cloud takes back n0 once it is told to."""

    def __init__(self) -> None:
        super().__init__(2)
        self.notices: tuple[InterruptionNotice, ...] = ()

    def observe(self) -> Observation:
        return replace(super().observe(), notices=self.notices)

    def take_back(self, node: str, notice: str) -> None:
        now = datetime.now(UTC)
        self.notices += (InterruptionNotice(notice, f"i-{node}", node, now, now + timedelta(minutes=2)),)
        self.nodes = tuple(replace(n, state=NodeState.RECLAIMING) if n.name == node else n for n in self.nodes)


@pytest.fixture
def cluster() -> Taken:
    return Taken()


@pytest.fixture
def fleet(database: Database, tmp_path: Path, cluster: Taken) -> Fleet:
    made = Fleet("f", tmp_path, database, {"main": cluster}, {}, SystemClock(), str(tmp_path / "saves"))
    apply_config(made, (Team("t", "q", ("p",), (Member("ada"),)),), (Queue("q", "root"),), {})
    one_round(made)
    return made


def submit(fleet: Fleet, **more: Any) -> str:
    request = {"team": "t", "project": "p", "name": "j", "gpus": 8, "command": "x"} | more
    return submit_job(fleet, parse_request(request), Principal("ada")).job


def test_a_notice_is_open_until_everyone_it_struck_runs_again(fleet: Fleet, cluster: Taken) -> None:
    first, second = submit(fleet), submit(fleet)
    one_round(fleet)
    cluster.take_back("n0", "notice-1")
    one_round(fleet)
    assert open_interruptions(fleet) == ("notice-1",)
    view = interruption_view(fleet, "notice-1")
    (struck,) = view["jobs"]
    assert struck["job"] in (first, second)
    assert not view["resumed"]
    cluster.nodes += (replace(cluster.nodes[1], name="n2"),)
    for _ in range(4):
        one_round(fleet)
    view = interruption_view(fleet, "notice-1")
    assert (view["left"], view["resumed"]) == (True, True)
    assert open_interruptions(fleet) == ()


def test_a_notice_for_what_runs_nothing_is_over_at_once(fleet: Fleet, cluster: Taken) -> None:
    cluster.take_back("n1", "notice-1")
    one_round(fleet)
    assert interruption_view(fleet, "notice-1")["resumed"]
    assert open_interruptions(fleet) == ()


def test_five_hundred_notices_at_once_heard_twice_are_five_hundred(fleet: Fleet, cluster: Taken) -> None:
    for number in range(500):
        cluster.take_back(f"gone-{number}", f"notice-{number}")
    one_round(fleet)
    one_round(fleet)
    assert len(open_interruptions(fleet)) == 500
    for notice in open_interruptions(fleet):
        interruption_view(fleet, notice)
    assert open_interruptions(fleet) == ()


def test_a_layout_change_is_followed_until_the_node_shows_it(fleet: Fleet, cluster: Taken) -> None:
    args = {"cluster": "main", "node": "n0", "gpu": 3, "destroy": [], "create": [["3g.40gb", 4]]}
    with fleet.database.write() as connection:
        operations.decide(connection, NOW, kind="repartition", target="gpu/n0/3", name="r1", args=args)
    assert open_repartitions(fleet) == ("r1",)
    one_round(fleet)
    assert open_repartitions(fleet) == ()
    assert not repartition_view(fleet, "r1")["shown"]
    cut = Device(3, (MigInstance(4, "3g.40gb"),))
    cluster.nodes = (replace(cluster.nodes[0], devices=(*cluster.nodes[0].devices[:3], cut)), *cluster.nodes[1:])
    one_round(fleet)
    assert repartition_view(fleet, "r1")["shown"]


@pytest.mark.parametrize("view", [interruption_view, repartition_view])
def test_what_nobody_heard_of_is_named(fleet: Fleet, view: Any) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        view(fleet, "nosuch")
