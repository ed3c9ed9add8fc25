"""Stories about services that are moved: only where the policy says so, only after a while, and only what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import MINUTE, node, on, pending, pods, running
from tests.scenarios.stories import Story, tell

from gpufleet.model.policy import SchedulingPolicy

STAYS = SchedulingPolicy()
MOVES = SchedulingPolicy(move_services=15 * MINUTE)


def service(name: str, *slices: str, where: str = "n0", hours: float = 4) -> object:
    """A replica of a service on one slice."""
    return running(name, on(where, slices=slices), kind="inference", hours=hours, saved=None)


TWO_CARDS = [node("n0", gpus=2), service("s0", "0:1g.10gb@0"), service("s1", "1:1g.10gb@0")]
"""A replica alone on each card."""
CRUMBS = [node("n0", gpus=2), service("s0", "0:1g.10gb@0"), service("s1", "1:1g.10gb@4"),
          service("s2", "0:3g.40gb@4"), service("s3", "1:3g.40gb@0")]  # fmt: skip
"""Half a card is free, in two pieces."""
WHOLE = pending("t", pods(gpus=1))
HALF = pending("half", pods(profile="3g.40gb"), kind="inference")

STORIES = {
    "a service stays where nobody has said that it may move": Story(
        [*TWO_CARDS, WHOLE], starts=[], moves=[], policy=STAYS
    ),
    "a replica alone on a card makes room for a whole one": Story(
        [*TWO_CARDS, WHOLE], starts=["t"], moves=["s0"], policy=MOVES
    ),
    "not one that has come a moment ago": Story(
        [*TWO_CARDS[:1], *(service(f"s{i}", f"{i}:1g.10gb@0", hours=0.2) for i in (0, 1)), WHOLE],
        starts=[], moves=[], policy=MOVES,
    ),
    "the card with least on it is cleared": Story(
        [*TWO_CARDS, service("s2", "0:2g.20gb@4"), WHOLE], starts=["t"], moves=["s1"], policy=MOVES
    ),
    "a small replica moves out of the way of a large one": Story(
        [*CRUMBS, HALF], starts=["half"], stops=[], policy=MOVES
    ),
    "a large one never moves for another as large, which could go where it would": Story(
        [node("n0", gpus=2), *(service(f"s{i}", f"{i // 2}:3g.40gb@{i % 2 * 4}") for i in range(3)),
         service("s4", "1:1g.10gb@4"), HALF],
        starts=[], moves=[], policy=MOVES,
    ),
    "moves end where the bound does": Story(
        [*TWO_CARDS, WHOLE], starts=[], moves=[], policy=replace(MOVES, moves_per_pass=0)
    ),
    "a node is cleared of all its replicas for a job of the whole node": Story(
        [node("n0", gpus=2), node("n1", gpus=2), service("s0", "0:1g.10gb@0"), service("s1", "1:1g.10gb@0"),
         service("s2", "0:1g.10gb@0", where="n1"), pending("t", pods(gpus=2))],
        starts=["t"], moves=["s2"], policy=MOVES,
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_services_move(story: Story) -> None:
    tell(story)
