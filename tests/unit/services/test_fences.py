"""The clusters' own quotas follow teams.yaml and the nodes, and nothing else makes anybody write them."""

from __future__ import annotations

from pathlib import Path

from tests.builders import queue
from tests.obliging import Obliging

from gpufleet.clock import SystemClock
from gpufleet.model.tenancy import Member, Team
from gpufleet.services.apply_config import apply_config
from gpufleet.services.fleet import Fleet
from gpufleet.services.tick import one_round
from gpufleet.store.database import Database


def test_fences_are_written_once_for_each_change_and_again_when_it_is_taken_back(
    database: Database, tmp_path: Path
) -> None:
    cluster = Obliging(1)
    fleet = Fleet("f", tmp_path, database, {"main": cluster}, {}, SystemClock(), str(tmp_path / "saves"))
    one, two = (Team(name, "a", ("p",), (Member("ada"),), namespace=name) for name in ("one", "two"))
    told = []
    for teams, limit in (((one,), 8), ((one,), 8), ((one, two), 8), ((one,), 8), ((one,), 4)):
        apply_config(fleet, teams, (queue("a", limit=limit),), {})
        one_round(fleet)
        one_round(fleet)
        told.append(len(cluster.fenced))
    assert told == [1, 1, 2, 3, 4]
    cluster.nodes += Obliging(3).nodes[1:]
    one_round(fleet)
    one_round(fleet)
    assert len(cluster.fenced) == 4, "more nodes of the same kind change no fence"
