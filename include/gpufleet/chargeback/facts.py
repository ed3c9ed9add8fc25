"""What the whole ledger says, settled node by node, so that not all of it must be in memory at once (rule 4).

Nearly every stretch is told by its own node alone: it ended by its own release and nothing else claims its GPU. Those are
passed on as they are read. What is open, and every GPU with stories that do not fit, is kept until all nodes were heard:
an attempt may have gone on elsewhere (rule 15).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.chargeback.claims import all_fit, settle_claims
from gpufleet.chargeback.evidence import Evidence, Place, Quarantine, weigh
from gpufleet.chargeback.holdings import Stretch, stretches
from gpufleet.chargeback.nodes import Life, lives
from gpufleet.chargeback.rates import MigShare
from gpufleet.model.usage import Allocated, NodeDown, NodeUp, UsageEvent


@dataclass(slots=True)
class Facts:
    """What is known of the nodes. The stretches were passed on."""

    lives: dict[str, Life] = field(default_factory=dict)
    witnesses: list[UsageEvent] = field(default_factory=list)
    """What the time that nodes were up can be counted from: their ups and downs, and a use of each never announced."""


Nodes = Iterable[Sequence[UsageEvent]]
"""One version of each event, all those of a node together."""
PastNodes = Callable[[Collection[str]], Nodes]
"""Of the nodes that were left out because they were gone for good before anything of interest: those of these jobs."""


def none_left_out(jobs: Collection[str]) -> Nodes:
    """Where every node was read."""
    return ()


def settle_facts(
    nodes: Nodes,
    mig_share: MigShare,
    quarantine: Quarantine,
    keep: Callable[[Stretch], None],
    past: PastNodes = none_left_out,
) -> Facts:
    """Pass on every stretch that counts, in no order.

    A node that is gone says one thing still: that a later attempt of a job, whose earlier one is open elsewhere, began.
    """
    facts, doubts = Facts(), _Doubts()
    for events in _nodes_and_past(nodes, past, doubts):
        evidence = weigh(events, quarantine)
        known = lives(evidence, quarantine)
        facts.lives.update(known)
        facts.witnesses += _witnesses(events, known)
        for stretch in doubts.hear(stretches(evidence, known, mig_share, quarantine), evidence):
            keep(stretch)
    for stretch in doubts.settled(quarantine):
        keep(stretch)
    return facts


def _nodes_and_past(nodes: Nodes, past: PastNodes, doubts: _Doubts) -> Nodes:
    yield from nodes
    yield from past(doubts.jobs())


def _witnesses(events: Sequence[UsageEvent], known: Mapping[str, Life]) -> Iterator[UsageEvent]:
    yield from (e for e in events if isinstance(e, NodeUp | NodeDown))
    unknown = (e for e in events if isinstance(e, Allocated) and not known[e.node].announced)
    yield from [*unknown][:1]


class _Doubts:
    """What cannot be settled before all nodes were heard."""

    def __init__(self) -> None:
        self._open: list[Stretch] = []
        """Still to be settled: loose ones, and all of a GPU where not all fit."""
        self._later: list[Stretch] = []
        """Settled, but a later attempt: where it begins, loose ones of earlier attempts end."""
        self._life: dict[Place | str, Sequence[int]] = {}

    def hear(self, told: Iterable[Stretch], evidence: Evidence) -> Iterator[Stretch]:
        """Those that are settled already."""
        by_gpu: dict[int, list[Stretch]] = defaultdict(list)
        for stretch in told:
            by_gpu[stretch.event.gpu].append(stretch)
        for mine in by_gpu.values():
            fit = all_fit(mine)
            for stretch in mine:
                if not fit or not stretch.firm:
                    self._ask(stretch, evidence)
                    continue
                if stretch.event.attempt > 1:
                    self._later.append(stretch)
                yield stretch

    def _ask(self, stretch: Stretch, evidence: Evidence) -> None:
        self._open.append(stretch)
        for key in (stretch.place, stretch.event.node):
            told: Sequence[int] = evidence.life.get(key, ())
            signs = told[bisect_left(told, stretch.begin) :]  # an earlier one says less than its own start (rule 14)
            if len(signs) > len(self._life.get(key, ())):
                self._life[key] = signs

    def jobs(self) -> set[str]:
        """Whose stretches are open."""
        return {stretch.event.job for stretch in self._open}

    def settled(self, quarantine: Quarantine) -> Iterator[Stretch]:
        """The others that count, now that all is known."""
        jobs = self.jobs()
        later = {stretch for stretch in self._later if stretch.event.job in jobs}
        for stretch in settle_claims([*self._open, *later], self._life, quarantine):
            if stretch not in later:
                yield stretch
