"""How much of a GPU each stretch is at each instant (rules 16 to 18)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.chargeback.holdings import Stretch

NOTHING = Fraction(0)
FULL = Fraction(1)


@dataclass(frozen=True, slots=True)
class Change:
    """From `at` on, the stretch is this much of its GPU."""

    at: int
    stretch: Stretch
    amount: Fraction


def changes(accepted: Iterable[Stretch], begin: int, end: int) -> Iterator[Change]:
    """Every change inside the window [begin, end); what runs at its end runs on (rule 16)."""
    by_gpu: dict[tuple[str, int], list[tuple[int, int, Stretch]]] = defaultdict(list)
    for stretch in accepted:
        since, until = max(stretch.begin, begin), min(stretch.end, end)
        if since < until:
            by_gpu[stretch.event.node, stretch.event.gpu].append((since, until, stretch))
    for _, spans in sorted(by_gpu.items()):
        spans.sort(key=lambda s: s[:2])
        if all(spans[i][1] <= spans[i + 1][0] for i in range(len(spans) - 1)):
            yield from _alone(spans)
        else:
            yield from _together(spans)


def _alone(spans: list[tuple[int, int, Stretch]]) -> Iterator[Change]:
    """The usual GPU: one after the other, nothing to weigh."""
    for since, until, stretch in spans:
        yield Change(since, stretch, stretch.part)
        yield Change(until, stretch, NOTHING)


def _together(spans: list[tuple[int, int, Stretch]]) -> Iterator[Change]:
    turns: dict[int, list[tuple[Stretch, bool]]] = defaultdict(list)
    for since, until, stretch in spans:
        turns[since].append((stretch, True))
        turns[until].append((stretch, False))
    running: dict[Stretch, None] = {}
    now: dict[Stretch, Fraction] = {}
    for at, turned in sorted(turns.items()):
        for stretch, starts in turned:
            if starts:
                running[stretch] = None
            else:
                del running[stretch]
        then = _shared(list(running))
        yield from (Change(at, s, NOTHING) for s in now if s not in then)
        yield from (Change(at, s, amount) for s, amount in then.items() if now.get(s) != amount)
        now = then


def _shared(running: list[Stretch]) -> dict[Stretch, Fraction]:
    """Each one's part; where the parts add to more than the GPU, each is divided by their sum (rule 18)."""
    counting = _counting(running)
    whole = max(FULL, sum((s.part for s in counting), NOTHING))
    return {s: s.part / whole for s in counting}


def _counting(running: list[Stretch]) -> list[Stretch]:
    """Rule 17: stretches of one job are a union; the newest attempt first, an older slice if it fits beside."""
    by_job: dict[str, list[Stretch]] = defaultdict(list)
    for stretch in sorted(running, key=lambda s: (-s.event.attempt, s.slot, s.event.id)):
        counted = by_job[stretch.event.job]
        if not counted or (stretch.is_slice and all(_beside(stretch, c) for c in counted)):
            counted.append(stretch)
    return [s for counted in by_job.values() for s in counted]


def _beside(one: Stretch, other: Stretch) -> bool:
    return other.is_slice and (one.cells.stop <= other.cells.start or other.cells.stop <= one.cells.start)
