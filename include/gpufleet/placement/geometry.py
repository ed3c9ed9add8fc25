"""Bitmask tables of one GPU model's MIG grid, built once: bit i = memory slice i (reference: MIG User Guide, -lgipp).

A layout is at most a dozen cells, so every question about it is answered exactly and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from gpufleet.model.hardware import GpuModel, MigInstance, MigProfile
from gpufleet.model.workload import Slice


@dataclass(frozen=True, slots=True)
class Cut:
    """One legal place of a profile on the card."""

    instance: MigInstance
    mask: int


WASTE_BITS: Final = 40
"""A key of a place is smaller than 2 to this power."""


class CardPlace(NamedTuple):
    """The best place of a profile on a card, and how good it is: smaller is better, below 2 ** WASTE_BITS."""

    key: int
    instance: MigInstance


class Geometry:
    """What one model's card can be cut into, and how much room a cut leaves."""

    def __init__(self, model: GpuModel) -> None:
        self.model = model
        self.cuts = {p.name: tuple(_cut(p, start) for start in p.starts) for p in model.profiles}
        self._masks = {(c.instance.profile, c.instance.start): c.mask for cuts in self.cuts.values() for c in cuts}
        self._shapes = _shapes(model)
        self._room: dict[int, int] = {}
        self._slots: dict[tuple[str, int], int] = {}
        self._places: dict[tuple[object, ...], CardPlace | None] = {}
        self._same_suitable: dict[tuple[MigProfile, ...], tuple[MigProfile, ...]] = {}
        self._suitable: dict[Slice, tuple[MigProfile, ...]] = {}

    def mask(self, instance: MigInstance) -> int:
        """The cells an instance covers."""
        return self._masks[instance.profile, instance.start]

    def masks(self, instances: Iterable[MigInstance]) -> int:
        """The cells several instances cover together."""
        found = 0
        for instance in instances:
            found |= self.mask(instance)
        return found

    def room(self, taken: int) -> int:
        """How much can still be cut: legal starts left, each weighted by its work. Larger keeps more possible.

        It puts a 3g at 4, keeps 0-3 whole for a 4g and takes the first 1g at 6 (docs/placement.md, section 2).
        """
        if taken not in self._room:
            self._room[taken] = sum(worth for worth, mask in self._shapes if not mask & taken)
        return self._room[taken]

    def slots(self, profile: MigProfile, taken: int) -> int:
        """How many more of one profile fit beside the cells taken, disregarding `max_instances`."""
        key = (profile.name, taken)
        if key not in self._slots:
            found, full = 0, taken
            for cut in self.cuts[profile.name]:  # equal intervals in order of start: greedy is exact
                if not cut.mask & full:
                    found, full = found + 1, full | cut.mask
            self._slots[key] = found
        return self._slots[key]

    def best_place(
        self, profile: MigProfile, taken: int, free: tuple[MigInstance, ...], opens: int, *, remake: bool
    ) -> CardPlace | None:
        """Where the profile leaves the most room on a card in this state (`opens`: what opening it breaks).

        First what exists; then cards opened already; then what keeps most possible; then the higher start.
        """
        key = (profile.name, taken, free, opens, remake)
        if key not in self._places:
            rated = [self._rate(cut, taken, free, opens) for cut in self.cuts[profile.name] if not cut.mask & taken]
            self._places[key] = min([p for p in rated if remake or p.instance in free], default=None)
        return self._places[key]

    def _rate(self, cut: Cut, taken: int, free: tuple[MigInstance, ...], opens: int) -> CardPlace:
        exists = cut.instance in free
        left = self.room(taken | cut.mask)
        destroyed = 0 if exists else sum(1 for i in free if self.mask(i) & cut.mask)
        key = 0
        for part, bits in (
            (int(not exists), 1),
            (opens, 2),
            (self.room(taken) - left, 12),
            (left, 12),
            (destroyed, 5),
            (31 - cut.instance.start, 5),
        ):
            key = (key << bits) + part
        return CardPlace(key, cut.instance)

    def suitable(self, demand: Slice) -> tuple[MigProfile, ...]:
        """Profiles that serve the demand, smallest first. Media and graphics variants only when named.

        Demands that the same profiles serve get the same tuple: they may be told apart by its identity.
        """
        if demand not in self._suitable:
            found = tuple(sorted(self._matching(demand), key=lambda p: (p.size, p.compute, p.name)))
            self._suitable[demand] = self._same_suitable.setdefault(found, found)
        return self._suitable[demand]

    def _matching(self, demand: Slice) -> list[MigProfile]:
        if demand.profile is not None:
            return [p for p in self.model.profiles if p.name == demand.profile]
        return [
            p
            for p in self.model.profiles
            if p.memory_mib >= demand.memory_mib and p.compute >= demand.compute and _is_plain(p)
        ]


def _is_plain(profile: MigProfile) -> bool:
    return profile.name.endswith("gb")


def _cut(profile: MigProfile, start: int) -> Cut:
    return Cut(MigInstance(start, profile.name), ((1 << profile.size) - 1) << start)


def _shapes(model: GpuModel) -> tuple[tuple[int, int], ...]:
    """(worth, mask) of every legal start, variants of one shape counted once.

    Worth is streaming multiprocessors, for a seventh of a card is not a seventh of its work (3g is 45 % of an H100);
    memory slices where the catalogue does not know them. Weights from the recent mix of slices brought nothing over
    this in trials (docs/decisions/0007).
    """
    known = all(p.sm for p in model.profiles)
    seen = {(p.compute, p.size, p.starts): p.sm if known and p.sm else p.size for p in model.profiles}
    return tuple((worth, ((1 << size) - 1) << s) for (_, size, starts), worth in sorted(seen.items()) for s in starts)


MOST_RECENT: Final = 256
_RECENT: dict[int, tuple[GpuModel, Geometry]] = {}


def geometry(model: GpuModel) -> Geometry:
    """The tables of a model; a model already seen is told by its identity, which is quicker than to compare it."""
    known = _RECENT.get(id(model))
    if known is None:
        if len(_RECENT) > MOST_RECENT:
            _RECENT.clear()
        known = _RECENT[id(model)] = model, _geometry(model)  # keeping the model keeps its id its own
    return known[1]


@cache
def _geometry(model: GpuModel) -> Geometry:
    return Geometry(model)
