"""The undo ledger: try, then keep or take back."""

from __future__ import annotations

import pytest
from tests.builders import node, on, running

from gpufleet.errors import Invalid
from gpufleet.model.hardware import MigRemake
from gpufleet.placement import Ledger, repartitions


def state(ledger: Ledger) -> object:
    return {name: (tuple(b.cards), b.free, b.cpu, b.memory_mib) for name, b in ledger.books.items()}


def test_an_exception_takes_every_step_back() -> None:
    ledger = Ledger([node(gpus=4, cpu=8.0)])
    before = state(ledger)
    with pytest.raises(KeyError), ledger.attempt():
        ledger.add(on("n1", 0, 1), "j")
        ledger.add(on("n1", slices=["2:1g.10gb@6"]), "j")
        raise KeyError
    assert state(ledger) == before


def test_what_was_added_and_dropped_is_free_again() -> None:
    ledger = Ledger([node(gpus=2)])
    for place in (on("n1", 0), on("n1", shares=["1:500/10"])):
        ledger.add(place, "j")
        ledger.drop(place, "j")
    assert ledger.books["n1"].free == (0, 1)


def test_a_dropped_slice_goes_on_existing() -> None:
    ledger = Ledger([node(gpus=1)], [running("r", on("n1", slices=["0:1g.10gb@6"]))])
    ledger.drop(on("n1", slices=["0:1g.10gb@6"]), "r")
    assert [str(i) for i in ledger.books["n1"].cards[0].free] == ["1g.10gb@6"]
    assert repartitions(ledger) == ()


def test_taking_the_whole_card_destroys_its_free_instances() -> None:
    ledger = Ledger([node(gpus=1, layout={0: ["1g.10gb@6", "2g.20gb@4"]})])
    ledger.add(on("n1", 0), "j")
    (change,) = repartitions(ledger)
    assert [str(i) for i in change.destroy] == ["2g.20gb@4", "1g.10gb@6"]


def test_a_hold_keeps_only_what_is_free_and_lifts_without_a_trace() -> None:
    ledger = Ledger([node(gpus=2, layout={1: ["1g.10gb@6"]})], [running("r", on("n1", 0))])
    before = state(ledger)
    ledger.hold(on("n1", 0, 1), "~head")
    assert ledger.books["n1"].free == ()
    ledger.lift("~head", ["n1"])
    assert state(ledger) == before


def test_who_is_leaving_holds_nothing_but_its_instances_exist() -> None:
    ledger = Ledger([node(gpus=1)], [running("r", on("n1", slices=["0:1g.10gb@6"]), leaving=True)])
    card = ledger.books["n1"].cards[0]
    assert not card.used and [str(i) for i in card.free] == ["1g.10gb@6"]


def test_a_place_beyond_the_node_is_refused() -> None:
    with pytest.raises(Invalid, match="GPU 9 of n1"):
        Ledger([node()], [running("r", on("n1", 9))])


def test_a_repartition_creates_the_largest_first_and_says_what_it_costs() -> None:
    ledger = Ledger(
        [node(gpus=1, layout={0: ["1g.10gb@6", "1g.10gb@0"]})], [running("r", on("n1", slices=["0:1g.10gb@6"]))]
    )
    for name, what in (("a", "0:1g.10gb@5"), ("b", "0:4g.40gb@0")):
        ledger.add(on("n1", slices=[what]), name)
    (change,) = repartitions(ledger)
    assert [str(i) for i in change.create] == ["4g.40gb@0", "1g.10gb@5"]
    assert (len(change.destroy), change.keeps, change.seconds) == (1, 1, 1.5)


def test_where_the_node_must_be_drained_a_repartition_costs_minutes() -> None:
    ledger = Ledger([node(gpus=1, mig=MigRemake.EMPTY_NODE)])
    ledger.add(on("n1", slices=["0:1g.10gb@6"]), "a")
    (change,) = repartitions(ledger)
    assert change.by is MigRemake.EMPTY_NODE and change.seconds >= 60
