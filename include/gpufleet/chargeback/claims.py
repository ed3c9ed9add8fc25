"""Who holds a GPU when two stories do not fit (rules 13 to 15)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpufleet.chargeback.days import FOREVER
from gpufleet.chargeback.evidence import Place, Quarantine
from gpufleet.chargeback.holdings import Stretch


def settle_claims(
    told: Iterable[Stretch], life: Mapping[Place | str, Sequence[int]], quarantine: Quarantine
) -> list[Stretch]:
    """The stretches that count, in the order (start, id); loose ones that something contradicts are cut short."""
    claims = _Claims(life, quarantine)
    for stretch in sorted(told, key=lambda s: (s.begin, s.event.id)):
        claims.take(stretch)
    return claims.accepted


def all_fit(told: Iterable[Stretch]) -> bool:
    """Whether no two stretches of one GPU contradict each other; then each counts, whatever is heard of others."""
    running: list[Stretch] = []
    for new in sorted(told, key=lambda s: (s.begin, s.event.id)):
        running = [s for s in running if s.end > new.begin]
        if running and _in_the_way(new, [s for s in running if s.event.job != new.event.job]):
            return False
        running.append(new)
    return True


class _Claims:
    """Takes one stretch after the other."""

    def __init__(self, life: Mapping[Place | str, Sequence[int]], quarantine: Quarantine) -> None:
        self.accepted: list[Stretch] = []
        self._life, self._quarantine = life, quarantine
        self._on_gpu: dict[tuple[str, int], list[Stretch]] = defaultdict(list)
        self._loose: dict[str, dict[int, list[Stretch]]] = defaultdict(lambda: defaultdict(list))
        """Loose stretches by job and attempt."""

    def take(self, new: Stretch) -> None:
        place = (new.event.node, new.event.gpu)
        running = self._on_gpu[place] = [s for s in self._on_gpu[place] if s.end > new.begin]
        others = [s for s in running if s.event.job != new.event.job]
        firm = [s for s in others if s.firm]
        for owner in _in_the_way(new, firm):
            self._quarantine.add(new.event.id, f"GPU {place[1]} of {place[0]} was held by {owner.event.job} then")
            return
        for vanished in _in_the_way(new, others):
            if not vanished.firm:
                self._end(vanished, new.begin)
        self._end_older_attempts(new)
        running.append(new)
        self.accepted.append(new)

    def _end_older_attempts(self, new: Stretch) -> None:
        """Rule 15: a job has one live attempt."""
        loose = self._loose[new.event.job]
        for attempt in sorted(a for a in loose if a < new.event.attempt):
            for older in loose.pop(attempt):
                if older.end > new.begin:
                    self._end(older, new.begin)
        if not new.firm:
            loose[new.event.attempt].append(new)

    def _end(self, loose: Stretch, at: int) -> None:
        """Rule 14: it ends with the last sign of life that is not after `at`."""
        signs = (_latest(self._life.get(key, ()), at) for key in (loose.place, loose.event.node))
        loose.end = max(loose.begin, *signs)


def _latest(signs: Sequence[int], at: int) -> int:
    i = bisect_right(signs, at)
    return signs[i - 1] if i else -FOREVER


def _in_the_way(new: Stretch, others: list[Stretch]) -> list[Stretch]:
    """Which of these cannot be there together with the new one (rule 13); firm ones were found to fit before."""
    if not others:
        return []
    if new.is_slice:
        return [s for s in others if not s.is_slice or _overlap(new.cells, s.cells)]
    if not new.is_share:
        return others
    shares = [s for s in others if s.is_share]
    full = new.part + sum(s.part for s in shares) > 1
    return [s for s in others if full or not s.is_share]


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
