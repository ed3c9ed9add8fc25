"""Bitmask tables of one GPU model's MIG grid, built once: bit i = memory slice i (reference: MIG User Guide, -lgipp).

A layout is at most a dozen cells, so every question about it is answered exactly and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gpufleet.model.hardware import GpuModel, MigInstance, MigProfile
from gpufleet.model.workload import Slice


@dataclass(frozen=True, slots=True)
class Cut:
    """One legal place of a profile on the card."""

    instance: MigInstance
    mask: int


class Geometry:
    """What one model's card can be cut into, and how much room a cut leaves."""

    def __init__(self, model: GpuModel) -> None:
        self.model = model
        self.cuts = {p.name: tuple(_cut(p, start) for start in p.starts) for p in model.profiles}
        self._shapes = _shapes(model)
        self._room: dict[int, int] = {}
        self._slots: dict[tuple[str, int], int] = {}
        self._suitable: dict[Slice, tuple[MigProfile, ...]] = {}

    def mask(self, instance: MigInstance) -> int:
        """The cells an instance covers."""
        return next(c.mask for c in self.cuts[instance.profile] if c.instance.start == instance.start)

    def masks(self, instances: Iterable[MigInstance]) -> int:
        """The cells several instances cover together."""
        found = 0
        for instance in instances:
            found |= self.mask(instance)
        return found

    def room(self, taken: int) -> int:
        """How much can still be cut: legal starts left, each weighted by its size. Larger keeps more possible.

        It puts a 3g at 4, keeps 0-3 whole for a 4g and takes the first 1g at 6 (reference/mig.md b.4, rule 3).
        """
        if taken not in self._room:
            self._room[taken] = sum(size for size, mask in self._shapes if not mask & taken)
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

    def suitable(self, demand: Slice) -> tuple[MigProfile, ...]:
        """Profiles that serve the demand, smallest first. Media and graphics variants only when named."""
        if demand not in self._suitable:
            self._suitable[demand] = tuple(sorted(self._matching(demand), key=lambda p: (p.size, p.compute, p.name)))
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
    """(size, mask) of every legal start, variants of one shape counted once."""
    seen = {(p.compute, p.size, p.starts) for p in model.profiles}
    return tuple((size, ((1 << size) - 1) << s) for _, size, starts in sorted(seen) for s in starts)


@cache
def geometry(model: GpuModel) -> Geometry:
    """The tables of a model."""
    return Geometry(model)
