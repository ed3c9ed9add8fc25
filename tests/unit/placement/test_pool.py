"""Arrays over nodes follow the ledger, whatever happens to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import job, node, nodes, on, pods

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Link
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import PodSet
from gpufleet.placement import Ledger, Topology
from gpufleet.placement.keys import keys_of, steadied
from gpufleet.placement.pool import Pool, pool_of
from gpufleet.placement.worth import pick, rooms, worths

KINDS = (pods(gpus=1), pods(gpus=2, cpu=8), pods(share="300/10"), pods(profile="1g.10gb"), pods(gpus=0, cpu=4))
steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(("whole", "share", "slice", "back", "undo")), st.integers(0, 1)),
    max_size=12,
)


@settings(deadline=None)
@given(steps)
def test_what_a_pool_remembers_is_what_a_new_one_would_say(steps: list[tuple[int, str, int]]) -> None:
    fleet = list(nodes(3, gpus=2, cpu=32.0))
    ledger, topology = Ledger(fleet), Topology(("spine", "leaf"), fleet)
    names = [n.name for n in fleet]
    done = [ledger.mark()]
    for number, (where, what, gpu) in enumerate(steps):
        look(pool_of(ledger, topology, names))
        if what == "undo":
            ledger.rollback(done.pop() if len(done) > 1 else done[0])
            continue
        done.append(ledger.mark())
        if (place := place_for(ledger, f"n{where}", what, gpu)) is not None:
            ledger.add(place, f"j{number}")
            if what == "back":
                ledger.drop(place, f"j{number}")
    old, new = pool_of(ledger, topology, names), Pool(ledger, topology, names)
    assert look(old) == look(new)


MANY = [
    *nodes(12, gpus=2, cpu=32.0),
    *(node(f"p{i}", gpus=2, link=Link.NVLINK_PAIRS, cpu=32.0) for i in range(4)),
    *(node(f"w{i}", gpus=2, sharing=False) for i in range(4)),
    *(node(f"s{i}", gpus=2, capacity=CapacityType.SPOT, cpu=3.0) for i in range(4)),
]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 23), st.sampled_from(("whole", "share", "slice")), st.integers(0, 1))))
def test_many_nodes_at_once_are_judged_as_each_alone_and_equal_states_alike(steps: list[tuple[int, str, int]]) -> None:
    ledger, topology = Ledger(MANY), Topology((), MANY)
    for number, (where, what, gpu) in enumerate(steps):
        if (place := place_for(ledger, MANY[where].name, what, gpu)) is not None:
            ledger.add(place, f"j{number}")
            if what == "slice" and number % 2:
                ledger.drop(place, f"j{number}")  # the instance goes on existing
    pool = Pool(ledger, topology, [n.name for n in MANY])
    for kind in KINDS:
        for fill in (keys_of(kind, ledger), steadied(keys_of(kind, ledger))):
            alone = [fill.one(pool, row) for row in range(len(MANY))]
            assert fill.many(pool, np.arange(len(MANY))).tolist() == alone
            if fill.by_state:
                assert len(set(zip(pool.states.tolist(), alone, strict=True))) == len(set(pool.states.tolist()))


def place_for(ledger: Ledger, name: str, what: str, gpu: int) -> PodPlace | None:
    card = ledger.books[name].cards[gpu]
    if what in ("whole", "back"):
        return on(name, gpu) if card.is_untouched else None
    if card.whole is not None:
        return None
    if what == "share":
        return on(name, shares=[f"{gpu}:300/10"]) if not card.taken and card.milli <= 700 else None
    return on(name, slices=[f"{gpu}:1g.10gb@6"]) if not card.shares and not card.taken & 1 << 6 else None


def look(pool: Pool) -> list[object]:
    return [said(pool, kind) for kind in KINDS]


def said(pool: Pool, kind: PodSet) -> object:
    return rooms(pool, kind).tolist(), worths(pool, kind, job()).tolist(), pick(pool, kind, job())


def test_of_two_equal_holes_the_one_in_the_fuller_leaf_is_taken() -> None:
    fleet = [*nodes(2, path="s1/l1"), node("m0", path="s1/l2"), node("m1", path="s1/l2")]
    ledger, topology = Ledger(fleet), Topology(("spine", "leaf"), fleet)
    for name in ("n0", "m0"):
        ledger.add(on(name, *range(6)), "half")
    ledger.add(on("m1", *range(8)), "full")
    best = pick(pool_of(ledger, topology, [n.name for n in fleet]), pods(gpus=2), job())
    assert best is not None and best.node == "m0"
