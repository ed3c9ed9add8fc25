"""What the events say together: one version of each id, sorted by kind; what cannot be used is named (rules 5 and 9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpufleet.chargeback.days import micros
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, Released, UsageEvent

Place = tuple[str, int, str, int]
"""Job, attempt, node and GPU: what a release without `start` and a heartbeat speak of."""


class Quarantine:
    """Ids that are not used, or not billed, each with the first reason that was found."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def add(self, id: str, why: str) -> None:
        self._why.setdefault(id, why)

    def copy(self) -> Quarantine:
        other = Quarantine()
        other._why.update(self._why)
        return other

    def sorted(self) -> tuple[tuple[str, str], ...]:
        """Id and reason, by id."""
        return tuple(sorted(self._why.items()))


@dataclass(slots=True)
class Evidence:
    """The events that count, by what they speak of."""

    holdings: dict[Place, list[Allocated | Released]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, list[NodeUp | NodeDown]] = field(default_factory=lambda: defaultdict(list))
    life: dict[Place | str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Instants of heartbeats by holding, or by node alone; sorted."""


def by_node(events: Iterable[UsageEvent], quarantine: Quarantine) -> Iterator[Sequence[UsageEvent]]:
    """One version of each event, node after node; the order they come in means nothing."""
    found: dict[str, list[UsageEvent]] = defaultdict(list)
    for event in _one_version(events, quarantine):
        found[event.node].append(event)
    yield from found.values()


def weigh(events: Iterable[UsageEvent], quarantine: Quarantine) -> Evidence:
    """Sort events, of which there is one version, by what they speak of."""
    found = Evidence()
    told: list[Heartbeat] = []
    for event in events:
        if isinstance(event, Allocated | Released):
            found.holdings[event.job, event.attempt, event.node, event.gpu].append(event)
        elif isinstance(event, NodeUp | NodeDown):
            found.nodes[event.node].append(event)
        elif isinstance(event, Heartbeat):
            told.append(event)
    _listen(found, told, quarantine)
    return found


def _one_version(events: Iterable[UsageEvent], quarantine: Quarantine) -> list[UsageEvent]:
    """Rule 5: equal lines are one event, lines that differ under one id are none."""
    versions: dict[str, UsageEvent] = {}
    for event in events:
        if versions.setdefault(event.id, event) != event:
            quarantine.add(event.id, "the same id is told with different contents")
    doubtful = {id for id, _ in quarantine.sorted()}
    return [e for id, e in sorted(versions.items()) if id not in doubtful]


def _listen(found: Evidence, told: list[Heartbeat], quarantine: Quarantine) -> None:
    """Rule 9: a heartbeat of what was never allocated is set aside."""
    allocated = {place for place, events in found.holdings.items() if any(isinstance(e, Allocated) for e in events)}
    for beat in sorted(told, key=lambda b: b.at):
        if beat.holding is None:
            found.life[beat.node].append(micros(beat.at))
            continue
        job, attempt, gpu = beat.holding
        place = (job, attempt, beat.node, gpu)
        if place in allocated:
            found.life[place].append(micros(beat.at))
        else:
            quarantine.add(beat.id, f"a heartbeat of {job}, attempt {attempt}, which was never allocated this GPU")
