"""Limits, guarantees and who may take from whom, in amounts."""

from __future__ import annotations

from tests.builders import node, on, queue, running, snapshot

from gpufleet.quota import Tree, Usage, usage
from gpufleet.quota.rules import Rights
from gpufleet.units import GRAIN, GpuAmount

H, T = "H100-80", "T4-16"


def used(tree: Tree, **gpus: int) -> Usage:
    found = Usage(tree)
    for name, count in gpus.items():
        found.add(name, H, count * GRAIN, preemptible=True)
    return found


def test_use_counts_for_every_ancestor_and_can_be_taken_back() -> None:
    found = Usage(Tree([queue("d", 0), queue("x", 0, parent="d")]))
    mark = found.mark()
    found.add("x", H, GRAIN, preemptible=False)
    assert found.of("d") == found.fixed("d") == {H: GRAIN}
    found.rollback(mark)
    assert found.of("d") == {H: 0}


def test_both_keys_of_a_limit_hold() -> None:
    found = used(Tree([queue("a", limit={"*": 5, H: 4})]), a=4)
    over = found.over_limit("a", H, 1)
    assert over and (over.key, over.grains) == (H, 4 * GRAIN)
    assert found.over_limit("a", T, GRAIN) is None
    assert found.over_limit("a", T, 2 * GRAIN) is not None


def test_no_key_guarantees_nothing() -> None:
    found = Usage(Tree([queue("a", {T: 4})]))
    assert not found.within(("a",), H, 1)
    assert found.within(("a",), T, 4 * GRAIN)


def rights(standing: Usage, now: Usage | None = None, **shares: int) -> Rights:
    table = {(name, H): gpus * GRAIN for name, gpus in shares.items()}
    return Rights(standing.tree, now or standing, standing, table)


def test_within_its_due_a_queue_takes_from_who_is_above_theirs() -> None:
    tree = Tree([queue("a", 4), queue("b", 4)])
    assert rights(used(tree, b=5)).may_reclaim("a", "b", H, 4 * GRAIN)
    assert not rights(used(tree, b=4)).may_reclaim("a", "b", H, GRAIN)


def test_beyond_its_due_only_from_who_is_above_their_fair_share() -> None:
    tree = Tree([queue("a", 2), queue("b", 2)])
    assert rights(used(tree, a=2, b=6), a=4, b=4).may_reclaim("a", "b", H, 2 * GRAIN)
    assert not rights(used(tree, a=4, b=4), a=4, b=4).may_reclaim("a", "b", H, GRAIN)


def test_inside_a_department_the_department_does_not_count() -> None:
    tree = Tree([queue("d", 8), queue("x", 8, parent="d"), queue("y", 0, parent="d"), queue("far", 8)])
    found = rights(used(tree, y=8))
    assert found.may_reclaim("x", "y", H, 8 * GRAIN)
    assert not found.may_reclaim("far", "y", H, GRAIN), "the department is within its due"


def test_what_a_pass_has_just_started_does_not_make_a_debtor() -> None:
    tree = Tree([queue("a", 4), queue("b", 4)])
    assert not rights(used(tree, b=1), used(tree, b=9)).may_reclaim("a", "b", H, GRAIN)


def test_the_report_has_a_row_for_every_model_and_for_all() -> None:
    fleet = snapshot(node(), queue("a", 4, limit=8), running("r", on("n1", 0, 1)))
    rows = {r.model: r for r in usage(fleet)}
    assert rows["*"].used == GpuAmount.of(2) and rows["*"].limit == GpuAmount.of(8)
    assert rows[H].deserved is None and rows[H].fair_share == GpuAmount.of(2)
