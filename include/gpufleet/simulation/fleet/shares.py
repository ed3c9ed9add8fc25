"""Where the GPUs' time went, and how much of it could have been useful at best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.model.catalogue import gpu_model
from gpufleet.simulation.fleet.serving import Service, fewest_cards, services
from gpufleet.simulation.fleet.spec import Spec
from gpufleet.simulation.fleet.workload import Work

IDEAL: float = 0.9
"""Part of a fleet that an ideal integer scheduler keeps busy with p99 waits below a minute (throughput-probes B.2)."""


@dataclass(slots=True)
class Books:
    """GPU-seconds after `since`: what was useful, what was held, and of which service so many replicas ran."""

    since: float = 0.0
    training: float = 0.0
    inference: float = 0.0
    held: float = 0.0
    """By training, from the moment it got its places."""
    cut: float = 0.0
    """By cards with at least one replica."""
    ran: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Replica-seconds by service."""
    _cards: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _on: Counter[str] = field(default_factory=Counter)
    _at: float = 0.0

    def hold(self, job: str, cards: Sequence[str], now: float) -> None:
        """The replica is on these cards from now on."""
        self._advance(now)
        self._cards[job] = tuple(cards)
        self._on.update(cards)

    def release(self, job: str, now: float) -> None:
        """It is on none any more."""
        self._advance(now)
        for card in self._cards.pop(job, ()):
            self._on[card] -= 1
            if not self._on[card]:
                del self._on[card]

    def ran_until(self, work: Work, started: float, began: float, now: float) -> None:
        """A run is over that got its places at `started` and was useful from `began` on."""
        self.release(work.name, now)
        useful = max(0.0, now - max(began, self.since))
        if work.is_replica:
            self.inference += useful * work.demand
            self.ran[work.service] += useful
        else:
            self.training += useful * work.gpus
            self.held += max(0.0, now - max(started, self.since)) * work.gpus

    def close(self, now: float) -> None:
        """Nothing is counted after this."""
        self._advance(now)

    def _advance(self, now: float) -> None:
        self.cut += max(0.0, now - max(self._at, self.since)) * len(self._on)
        self._at = now


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of all GPUs' time; the five are all of it."""

    training: float
    """Making progress."""
    inference: float
    """Of cards, what the replicas on them need."""
    starting: float
    """Held by training that restarts."""
    inside: float
    """Of cards with replicas, what none of them needs."""
    idle: float

    @property
    def useful(self) -> float:
        return self.training + self.inference


def shares(books: Books, gpus: int, until: float) -> Shares:
    """The books as parts of so many GPUs from the end of the warm-up to `until`."""
    total = gpus * (until - books.since)
    parts = [x / total for x in (books.training, books.inference, books.held, books.cut)]
    training, inference, held, cut = parts
    return Shares(training, inference, held - training, cut - inference, 1 - held - cut)


# ---------------------------------------------------------------- bounds


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no scheduler could exceed. `eta` is what replicas need over the fewest cards that hold them."""

    eta: float
    useful: float
    """1 - (cards the replicas that ran take at least - what they need): training gets all the rest."""
    cards_at_mean: float
    """Cards that the offered replicas take at least, over all cards; above 1 they cannot all be served."""
    cards_at_peak: float
    ideal_integer_load: float
    """Highest load at which an ideal scheduler of whole cards, that stops training, keeps waits below a minute."""


def bounds(spec: Spec, books: Books, until: float) -> Bounds:
    """Of the experiment, and of the replicas that ran in it."""
    kinds, part = services(spec), 1 - spec.training_share
    if not kinds or part <= 0:
        return Bounds(1.0, 1.0, 0.0, 0.0, IDEAL)
    need = sum(s.part * s.demand for s in kinds) / sum(s.part for s in kinds)
    eta = need * sum(s.part for s in kinds) / cards_for(spec, {s: s.part for s in kinds})
    seconds, gpus = until - books.since, spec.fleet.total
    ran = cards_for(spec, _of_each(kinds, books.ran, seconds)) / gpus
    mean, peak = part * spec.load / eta, 1 + spec.serving.swing
    ideal = min(IDEAL / (spec.training_share + part / need), IDEAL * need / (peak * part))
    return Bounds(eta, 1 - ran + books.inference / (gpus * seconds), mean, mean * peak, ideal)


def cards_for(spec: Spec, replicas: Mapping[Service, float]) -> float:
    """The fewest cards of the fleet's model for so many replicas of each service."""
    return fewest_cards(replicas, spec.serving.margin, gpu_model(spec.fleet.model))


def _of_each(kinds: Sequence[Service], ran: Mapping[int, float], seconds: float) -> dict[Service, float]:
    """Replicas on average at work; equal services are one."""
    found: dict[Service, float] = {}
    for index, seconds_ran in ran.items():
        found[kinds[index]] = found.get(kinds[index], 0.0) + seconds_ran / seconds
    return found
