"""The tree of queues: ancestors, what each deserves, what bounds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufleet.errors import Invalid
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.units import GpuAmount

ROOT = "root"
Amounts = Mapping[str, int]
"""Grains by GPU model, and under `*` for the sum over models."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that stands in the way: whose, on what, how much."""

    queue: str
    key: str
    grains: int


class Tree:
    """Queues by name with what follows from their parents."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues = {q.name: q for q in sorted(queues, key=lambda q: q.name)}
        self.children: dict[str, list[str]] = {name: [] for name in (ROOT, *self.queues)}
        for queue in self.queues.values():
            self.children.setdefault(queue.parent or ROOT, []).append(queue.name)
        self.chains = {name: self._chain(name) for name in self.queues}
        self.top = {name: chain[-1] for name, chain in self.chains.items()}
        """By queue, its ancestor (or itself) just below the root."""
        self.limits: dict[str, Amounts] = {n: _grains(q.limit) for n, q in self.queues.items()}
        self._deserved: dict[str, Amounts] = {}
        self._below: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def _chain(self, name: str) -> tuple[str, ...]:
        chain: list[str] = []
        here: str | None = name
        while here is not None and here in self.queues:
            if here in chain:
                raise Invalid(f"Queue '{name}' is its own ancestor.")
            chain.append(here)
            here = self.queues[here].parent
        return tuple(chain)

    def chain(self, name: str) -> tuple[str, ...]:
        """The queue and its ancestors, without the root. An unknown queue is a leaf that deserves nothing."""
        return self.chains.get(name, (name,))

    def below_common(self, one: str, other: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both chains up to, without, their lowest common ancestor: there the two are siblings."""
        if (one, other) not in self._below:
            a, b = self.chain(one), self.chain(other)
            common = set(a) & set(b)
            self._below[one, other] = tuple(q for q in a if q not in common), tuple(q for q in b if q not in common)
        return self._below[one, other]

    def deserved(self, name: str) -> Amounts:
        """What the queue deserves; a parent without own keys deserves what its children do together."""
        if name not in self._deserved:
            queue = self.queues.get(name)
            own = _grains(queue.deserved) if queue else {}
            self._deserved[name] = own if own or not self.children.get(name) else self._sum_of_children(name)
        return self._deserved[name]

    def _sum_of_children(self, name: str) -> Amounts:
        found: dict[str, int] = {}
        for child in self.children[name]:
            for key, amount in self.deserved(child).items():
                found[key] = found.get(key, 0) + amount
        return found

    def weight(self, name: str) -> float:
        return self.queues[name].weight if name in self.queues else 1.0

    def used_lately(self, name: str) -> float:
        """Share of the capacity that the queue used lately; a parent without a figure of its own: its children's sum."""
        own = self.queues[name].used_lately if name in self.queues else 0.0
        return own or sum(self.used_lately(child) for child in self.children.get(name, ()))


def _grains(amounts: Iterable[tuple[str, GpuAmount]]) -> dict[str, int]:
    return {key: amount.grains for key, amount in amounts}


def is_within(amounts: Amounts, used: Mapping[str, int], model: str, more: int = 0) -> bool:
    """Whether the use of `model`, with so much more, is inside these amounts.

    Its own key and `*` both hold; no key guarantees nothing.
    """
    mine = used.get(model, 0) + more
    bound, together = amounts.get(model), amounts.get(ANY_MODEL)
    if bound is None and together is None:
        return mine <= 0
    if bound is not None and mine > bound:
        return False
    return together is None or sum(used.values()) + more <= together
