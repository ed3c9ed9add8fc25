"""A whole-cluster story: facts, what is expected of the plan, and then it must come to rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders import NOW, reasons, snapshot, stopped, where
from tests.laws import broken_laws, outcome

from gpufleet.model.plan import Plan
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import run_pass, settle

QUIET_ROUNDS = 10


@dataclass(frozen=True)
class Story:
    """Facts of a fleet and what an expert expects. None means: not looked at."""

    facts: Sequence[Any]
    starts: Sequence[str] | None = None
    on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Nodes of a job, all and no others."""
    gpus: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    """GPUs of a job: one of these."""
    slices: Mapping[str, str] = field(default_factory=dict)
    """`profile@start` of a job's only pod."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Reason of a waiting job."""
    says: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words its detail must have."""
    stops: Sequence[str] | None = None
    stops_count: int | None = None
    shrinks: Mapping[str, int] | None = None
    moves: Sequence[str] | None = None
    remakes: Sequence[str] | None = None
    """`node/gpu` of every repartition."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """How many GPUs a job touches."""
    policy: SchedulingPolicy = SchedulingPolicy()


def tell(story: Story) -> None:
    """Plan, look, and let it come to rest."""
    fleet = snapshot(*story.facts)
    plan = run_pass(fleet, story.policy, NOW)
    assert broken_laws(fleet, plan, story.policy) == []
    _look_at_starts(story, plan)
    _look_at_waiting(story, plan)
    _look_at_victims(story, fleet, plan)
    assert settle(fleet, story.policy, QUIET_ROUNDS).settled


def _look_at_starts(story: Story, plan: Plan) -> None:
    if story.starts is not None:
        assert sorted(p.job for p in plan.placements) == sorted(story.starts), reasons(plan)
    for name, nodes in story.on.items():
        assert {n for n, _ in where(plan, name)} == set(nodes)
    for name, options in story.gpus.items():
        assert [gpu for _, gpus in where(plan, name) for gpu in gpus] in [list(o) for o in options]
    for name, wanted in story.slices.items():
        assert [str(s.instance) for p in plan.placements if p.job == name for x in p.pods for s in x.slices] == [wanted]
    for name, most in story.cards.items():
        assert len({(n, g) for n, gpus in where(plan, name) for g in gpus}) == most
    if story.remakes is not None:
        assert [f"{r.node}/{r.gpu}" for r in plan.repartitions] == list(story.remakes)


def _look_at_waiting(story: Story, plan: Plan) -> None:
    found = reasons(plan)
    assert {name: found.get(name) for name in story.waits} == dict(story.waits)
    for name, words in story.says.items():
        detail = next(w.detail for w in plan.waiting if w.job == name)
        assert all(word in detail for word in words), detail


def _look_at_victims(story: Story, fleet: Snapshot, plan: Plan) -> None:
    if story.stops is not None:
        assert stopped(plan) == set(story.stops)
    if story.stops_count is not None:
        assert len(stopped(plan)) == story.stops_count
    if story.moves is not None:
        assert sorted(m.job for m in plan.moves) == sorted(story.moves)
    if story.shrinks is not None:
        after = outcome(fleet, plan)
        lost = {r.job.id: len(r.places) - len(after[r.job.id]) for r in fleet.running if after[r.job.id]}
        assert {name: n for name, n in lost.items() if n} == dict(story.shrinks)
