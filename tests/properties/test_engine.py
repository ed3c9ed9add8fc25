"""What must never happen, whatever the fleet: hypothesis draws fleets, the tests' own referee reads the plans."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import NOW, node, on, pending, pods, queue, running, snapshot
from tests.laws import broken_laws

from gpufleet.model.hardware import MigRemake, Node, NodeState, illegal_layout
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Pending, Running, Snapshot
from gpufleet.placement import Gang, Ledger, Topology, place_gang
from gpufleet.placement.filters import eligible
from gpufleet.scheduling import apply, run_pass, settle

POLICY = SchedulingPolicy()
MODELS = ("H100-80", "A30-24")
QUEUES = ("a", "b", "c")
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def fleet_nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for i in range(draw(st.integers(1, 4))):
        gpus = draw(st.sampled_from((1, 2, 4)))
        found.append(
            node(
                f"n{i}",
                gpus=gpus,
                model=draw(st.sampled_from(MODELS)),
                path=draw(st.sampled_from(("s1/l1", "s1/l2", "s2/l1", ""))),
                unhealthy=draw(st.sets(st.integers(0, gpus - 1), max_size=1)),
                mig=draw(st.sampled_from(list(MigRemake))),
                state=draw(st.sampled_from((NodeState.READY, NodeState.READY, NodeState.CORDONED))),
                sharing=draw(st.booleans()),
            )
        )
    return found


@st.composite
def running_on(draw: st.DrawFn, nodes: list[Node]) -> list[Running]:
    """Each card is empty, whole in use, sliced or shared, each by its own job."""
    found: list[Running] = []
    for n in nodes:
        for gpu in range(len(n.devices)):
            kind = draw(st.sampled_from(("empty", "empty", "whole", "slice", "share")))
            place = None
            if kind == "whole":
                place = on(n.name, gpu)
            elif kind == "share":
                place = on(n.name, shares=[f"{gpu}:{draw(st.sampled_from((100, 500)))}/4"])
            elif kind == "slice":
                profile = draw(st.sampled_from(n.model.profiles))
                place = on(n.name, slices=[f"{gpu}:{profile.name}@{draw(st.sampled_from(profile.starts))}"])
            if place:
                found.append(
                    running(
                        f"r{len(found)}",
                        place,
                        queue=draw(st.sampled_from(QUEUES)),
                        saved=draw(st.sampled_from((1, 10, 200))),
                        priority=draw(st.sampled_from((10, 50))),
                        preemptible=draw(st.booleans()),
                        kind=draw(st.sampled_from(("training", "inference"))),
                    )
                )
    return found


@st.composite
def waiting_jobs(draw: st.DrawFn) -> list[Pending]:
    asks = st.sampled_from(
        (
            {"gpus": 1},
            {"gpus": 2},
            {"gpus": 4},
            {"slice_gib": 4},
            {"slice_gib": 15, "compute": 2},
            {"profile": "1g.10gb"},
            {"profile": "2g.12gb"},
            {"share": "500/10"},
            {"share": "250/2"},
        )
    )
    found = []
    for i in range(draw(st.integers(0, 6))):
        sets = [pods(draw(st.integers(1, 3)), **draw(asks)) for _ in range(draw(st.integers(1, 2)))]
        most = sum(s.count for s in sets)
        found.append(
            pending(
                f"p{i}",
                *sets,
                queue=draw(st.sampled_from(QUEUES)),
                priority=draw(st.sampled_from((10, 50, 90))),
                preemptible=draw(st.booleans()),
                kind=draw(st.sampled_from(("training", "inference"))),
                min_members=draw(st.one_of(st.none(), st.integers(1, most))),
                required=draw(st.sampled_from((None, "leaf", "node"))),
            )
        )
    return found


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    nodes = draw(fleet_nodes())
    queues = []
    for name in QUEUES:
        due = draw(st.integers(0, 4))
        queues.append(queue(name, due, limit=draw(st.one_of(st.none(), st.integers(due, 8)))))
    return snapshot(*nodes, *queues, *draw(running_on(nodes)), *draw(waiting_jobs()))


@SLOW
@given(fleets())
def test_every_plan_keeps_the_laws(fleet: Snapshot) -> None:
    assert broken_laws(fleet, run_pass(fleet, POLICY, NOW)) == []


@SLOW
@given(fleets())
def test_plans_applied_to_their_own_results_come_to_rest_and_stay_lawful(fleet: Snapshot) -> None:
    assert settle(fleet, POLICY, 10).settled
    after = apply(fleet, run_pass(fleet, POLICY, NOW))
    assert broken_laws(after, run_pass(after, POLICY, NOW)) == []


@SLOW
@given(fleets(), st.randoms(use_true_random=False))
def test_the_same_fleet_in_another_order_gives_the_same_plan(fleet: Snapshot, rng: object) -> None:
    def mixed(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(rng.sample(items, len(items)))  # type: ignore[attr-defined]

    other = replace(
        fleet,
        nodes=mixed(fleet.nodes),
        queues=mixed(fleet.queues),
        running=mixed(fleet.running),
        pending=mixed(fleet.pending),
    )
    assert run_pass(other, POLICY, NOW) == run_pass(fleet, POLICY, NOW)


@SLOW
@given(fleets())
def test_a_gang_that_does_not_fit_leaves_no_trace(fleet: Snapshot) -> None:
    ledger, topology = Ledger(fleet.nodes, fleet.running), Topology(fleet.levels, fleet.nodes)
    for waiting in fleet.pending:
        before = {name: (tuple(b.cards), b.free, b.cpu) for name, b in ledger.books.items()}
        mark = ledger.mark()
        nodes = eligible(waiting.job, fleet.nodes)
        found = place_gang(ledger, topology, Gang(waiting.job, waiting.job.pods, nodes)) if nodes else None
        if found is not None:
            ledger.rollback(mark)
        assert {name: (tuple(b.cards), b.free, b.cpu) for name, b in ledger.books.items()} == before


@SLOW
@given(fleets())
def test_nobody_within_what_it_deserves_loses_to_another_queue(fleet: Snapshot) -> None:
    plan = run_pass(fleet, POLICY, NOW)
    queue_of = {j.id: j.queue for j in (*(r.job for r in fleet.running), *(p.job for p in fleet.pending))}
    deserved = {q.name: dict(q.deserved)["*"].grains for q in fleet.queues}
    for name in QUEUES:
        held = {r.job.id: _grains(fleet, r) for r in fleet.running if r.job.queue == name}
        lost = {e.job for e in plan.evictions if queue_of[e.job] == name and queue_of[e.for_job] != name}
        if lost:  # before the last of them left, the queue still held more than it deserves
            rest = sum(held.values()) - sum(held[j] for j in lost) + max(held[j] for j in lost)
            assert rest > deserved[name]


def _grains(fleet: Snapshot, run: Running) -> int:
    models = {n.name: n.model for n in fleet.nodes}
    found = 0
    for place in run.places:
        model = models[place.node]
        found += 21_000 * len(place.gpus) + sum(21 * s.milli for s in place.shares)
        for piece in place.slices:
            profile = model.profile(piece.instance.profile)
            assert profile is not None
            found += 21_000 * profile.size // model.memory_slices
    return found


@given(st.lists(st.sampled_from(node(gpus=1).model.profiles), max_size=8))
def test_slices_one_after_the_other_always_give_a_legal_card(profiles: list[object]) -> None:
    one = node(gpus=1)
    asks = [pending(f"p{i}", pods(1, profile=p.name)) for i, p in enumerate(profiles)]  # type: ignore[attr-defined]
    plan = run_pass(snapshot(one, queue("a", 8), *asks), POLICY, NOW)
    created = [i for r in plan.repartitions for i in r.create]
    assert illegal_layout(one.model, created) is None
