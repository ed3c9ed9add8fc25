"""What must never happen, whatever the fleet: hypothesis draws fleets, the tests' own referee reads the plans."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import NOW, node, pending, pods, queue, snapshot
from tests.laws import broken_laws
from tests.properties.fleets import THROUGHPUT, crowded, fleets, policies

from gpufleet.model.hardware import illegal_layout
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.placement import Gang, Ledger, Topology, place_gang
from gpufleet.placement.filters import eligible
from gpufleet.scheduling import apply, run_pass, settle

T = TypeVar("T")
POLICY = SchedulingPolicy()


@given(fleets(), policies())
def test_every_plan_keeps_the_laws(fleet: Snapshot, policy: SchedulingPolicy) -> None:
    assert broken_laws(fleet, run_pass(fleet, policy, NOW), policy) == []


@given(fleets(), policies())
def test_plans_applied_to_their_own_results_come_to_rest_and_stay_lawful(
    fleet: Snapshot, policy: SchedulingPolicy
) -> None:
    assert settle(fleet, policy, 10).settled
    after = apply(fleet, run_pass(fleet, policy, NOW))
    assert broken_laws(after, run_pass(after, policy, NOW), policy) == []


@given(crowded())
def test_with_every_throughput_rule_on_plans_are_lawful_and_come_to_rest(fleet: Snapshot) -> None:
    plan = run_pass(fleet, THROUGHPUT, NOW)
    assert broken_laws(fleet, plan, THROUGHPUT) == []
    assert settle(fleet, THROUGHPUT, 10).settled


@given(fleets(), policies(), st.randoms(use_true_random=False))
def test_the_same_fleet_in_another_order_gives_the_same_plan(
    fleet: Snapshot, policy: SchedulingPolicy, rng: Random
) -> None:
    def mixed(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(rng.sample(items, len(items)))

    other = replace(
        fleet,
        nodes=mixed(fleet.nodes),
        queues=mixed(fleet.queues),
        running=mixed(fleet.running),
        pending=mixed(fleet.pending),
    )
    assert run_pass(other, policy, NOW) == run_pass(fleet, policy, NOW)


@given(fleets())
def test_a_gang_that_does_not_fit_leaves_no_trace(fleet: Snapshot) -> None:
    ledger, topology = Ledger(fleet.nodes, fleet.running), Topology(fleet.levels, fleet.nodes)

    def books() -> dict[str, object]:
        return {name: (tuple(b.cards), b.free, b.cpu, b.memory_mib) for name, b in ledger.books.items()}

    for waiting in fleet.pending:
        before, mark = books(), ledger.mark()
        nodes = eligible(waiting.job, fleet.nodes)
        found = place_gang(ledger, topology, Gang(waiting.job, waiting.job.pods, nodes)) if nodes else None
        assert found is None or len(found) == waiting.job.pods
        if found is not None:
            ledger.rollback(mark)
        assert books() == before


@given(st.data())
def test_slices_one_after_the_other_always_give_a_legal_card(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(("H100-80", "A30-24", "RTXPRO6000-96", "A100-40", "B200-180")))
    one = node(gpus=1, model=model)
    profiles = data.draw(st.lists(st.sampled_from(one.model.profiles), max_size=8))
    asks = [pending(f"p{i}", pods(1, profile=p.name)) for i, p in enumerate(profiles)]
    plan = run_pass(snapshot(one, queue("a", 8), *asks), POLICY, NOW)
    created = [i for r in plan.repartitions for i in r.create]
    assert illegal_layout(one.model, created) is None and len(created) == len(plan.placements)
