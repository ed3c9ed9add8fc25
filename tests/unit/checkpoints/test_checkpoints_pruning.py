"""What of a job's saves may go, and what never does."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gpufleet.checkpoints import list_saves, newest_complete, prune
from gpufleet.errors import Invalid
from gpufleet.training.manifest import SaveRef

if TYPE_CHECKING:
    from conftest import Depot

NOW = datetime.now(UTC)  # the saves of these tests are written about now
LATER = NOW + timedelta(hours=2)


def left(depot: Depot) -> list[tuple[int, int]]:
    return [(save.attempt, save.step) for save in list_saves(depot.url, "job-a")]


def test_the_newest_complete_saves_stay(depot: Depot) -> None:
    for step in (1, 2, 3, 4):
        depot.save(1, step)
    pruned = prune(depot.url, "job-a", keep=2, now=NOW)
    assert left(depot) == [(1, 4), (1, 3)]
    assert [gone.path for gone in pruned.removed] == ["job-a/1/000000000002", "job-a/1/000000000001"]
    assert pruned.removed[0].why == "It is older than the newest 2 complete saves."
    assert pruned.freed > 12


def test_a_protected_save_and_the_base_of_the_newest_attempt_stay(depot: Depot) -> None:
    for step in (1, 2, 3):
        depot.save(1, step)
    depot.base(2, SaveRef(1, 3))
    for step in (4, 5, 6):
        depot.save(2, step)
    prune(depot.url, "job-a", keep=1, now=LATER, protect=[SaveRef(1, 1)])
    assert left(depot) == [(2, 6), (1, 3), (1, 1)]


def test_the_newest_save_that_is_whole_stays_though_damaged_ones_are_newer(depot: Depot) -> None:
    depot.save(1, 1)
    depot.save(1, 2, damage="flipped")
    depot.save(1, 3, damage="flipped")
    prune(depot.url, "job-a", keep=2, now=LATER)
    newest = newest_complete(depot.url, "job-a")
    assert newest is not None
    assert newest.ref == SaveRef(1, 1)


@pytest.mark.parametrize("damage", ["unfinished", "cut"])
def test_an_unfinished_save_goes_after_its_grace(depot: Depot, damage: str) -> None:
    depot.save(1, 1)
    depot.save(1, 2, damage=damage)
    assert prune(depot.url, "job-a", keep=3, now=NOW).removed == ()
    assert [gone.path for gone in prune(depot.url, "job-a", keep=3, now=LATER).removed] == ["job-a/1/000000000002"]


def test_an_orphan_goes_after_its_grace_and_does_not_count_among_the_kept(depot: Depot) -> None:
    depot.save(1, 1)
    depot.save(1, 2)
    depot.base(2, SaveRef(1, 1))
    depot.save(2, 2)
    assert prune(depot.url, "job-a", keep=2, now=NOW).removed == ()
    pruned = prune(depot.url, "job-a", keep=2, now=LATER)
    assert left(depot) == [(2, 2), (1, 1)]
    assert pruned.removed[0].why == "A later attempt had already chosen what to resume from when it was written."


def test_an_orphan_that_is_the_newest_save_of_all_stays(depot: Depot) -> None:
    depot.save(1, 1)
    depot.save(1, 2)
    depot.base(2, SaveRef(1, 1))
    prune(depot.url, "job-a", keep=1, now=LATER)
    assert left(depot) == [(1, 2), (1, 1)]


def test_a_temporary_file_of_a_killed_writer_goes_after_its_grace(depot: Depot) -> None:
    depot.save(1, 1)
    depot.put("1/.progress.json.4711", b"{")
    depot.put("1/progress.json", b"{}")
    prune(depot.url, "job-a", keep=1, now=NOW)
    assert depot.has("1/.progress.json.4711")
    prune(depot.url, "job-a", keep=1, now=LATER)
    assert not depot.has("1/.progress.json.4711")
    assert depot.has("1/progress.json")


def test_a_result_beside_the_attempts_is_not_touched(depot: Depot) -> None:
    depot.save(1, 1)
    depot.put("weights.bin", b"w")
    prune(depot.url, "job-a", keep=1, now=LATER)
    assert depot.has("weights.bin")


def test_a_damaged_base_of_the_newest_attempt_stops_the_pruning(depot: Depot) -> None:
    for step in (1, 2):
        depot.save(1, step)
    depot.put("1/base.json", b"{")
    depot.put("2/base.json", b"{")
    with pytest.raises(Invalid, match=r"2/base\.json is not valid JSON"):
        prune(depot.url, "job-a", keep=1, now=LATER)
    assert left(depot) == [(1, 2), (1, 1)]
    depot.base(2, SaveRef(1, 2))
    prune(depot.url, "job-a", keep=1, now=LATER)
    assert left(depot) == [(1, 2)]


def test_keeping_nothing_is_refused(depot: Depot) -> None:
    with pytest.raises(Invalid, match="at least one save"):
        prune(depot.url, "job-a", keep=0, now=NOW)


refs = some.builds(SaveRef, some.integers(1, 3), some.integers(0, 4))
layouts = some.dictionaries(refs, some.sampled_from(["none", "none", "unfinished", "cut", "flipped"]), max_size=8)


@settings(deadline=None, max_examples=60)
@given(
    saves=layouts,
    bases=some.dictionaries(some.integers(1, 4), some.none() | refs),
    protect=some.sets(refs, max_size=4),
    keep=some.integers(1, 3),
)
def test_pruning_never_takes_what_is_needed_and_settles(
    new_depot: type[Depot],
    saves: dict[SaveRef, str],
    bases: dict[int, SaveRef | None],
    protect: set[SaveRef],
    keep: int,
) -> None:
    depot = new_depot(f"memory://{uuid.uuid4().hex}")
    for ref, damage in saves.items():
        depot.save(ref.attempt, ref.step, damage=damage)
    for attempt, base in bases.items():
        depot.base(attempt, base)
    before = newest_complete(depot.url, "job-a")
    now = datetime.now(UTC) + timedelta(hours=2)
    prune(depot.url, "job-a", keep=keep, now=now, protect=protect)
    after = newest_complete(depot.url, "job-a")
    assert (after and after.ref) == (before and before.ref)
    needed = protect | ({bases[max(bases)]} if bases else set())
    assert set(saves) & needed <= {save.ref for save in list_saves(depot.url, "job-a")}
    assert prune(depot.url, "job-a", keep=keep, now=now, protect=protect).removed == ()
