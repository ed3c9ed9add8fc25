"""Which MIG instance lies where, on nodes that only tell how many of each profile they have.

A device plugin names no GPU and no start. What we asked for ourselves is written on the node; else a legal layout is
inferred that has just these counts. It never has more instances than the node tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from gpufleet.model.hardware import GpuModel, MigInstance, MigProfile, illegal_layout

Layout = dict[int, tuple[MigInstance, ...]]
"""GPU -> the instances on it."""

_WRITTEN: Final = re.compile(r"(\d{1,2}):([^@\s]{1,30})@(\d{1,2})")


def written_layout(text: str) -> Layout:
    """`3:1g.10gb@6 3:3g.40gb@0`; words that are none of this are left out."""
    found: dict[int, list[MigInstance]] = {}
    for gpu, profile, start in _WRITTEN.findall(text):
        found.setdefault(int(gpu), []).append(MigInstance(int(start), profile))
    return {gpu: tuple(sorted(instances)) for gpu, instances in found.items()}


def layout_of(
    model: GpuModel, counts: Mapping[str, int], *, gpus: int, whole: int, wanted: Layout, held: Layout
) -> Layout:
    """A legal layout with exactly these counts, or with fewer where they cannot be.

    `wanted` was asked for and is believed where it has these counts. `held` are instances that our pods were planned
    on: they stay where they are. `whole` of the `gpus` cards carry no instances: the first ones that nobody holds.
    """
    if _sum(wanted) == Counter(counts) and _is_legal(model, wanted):
        return wanted
    fixed = held if _is_legal(model, held) else {}
    fixed = {gpu: kept for gpu, instances in fixed.items() if (kept := _within(instances, fixed, counts))}
    left = Counter(counts)
    left.subtract(_sum(fixed))
    cards = _cards(fixed, gpus, whole)
    return _spread(model, left, cards, fixed) or _first_fit(model, left, cards, fixed)


def _within(instances: tuple[MigInstance, ...], all_held: Layout, counts: Mapping[str, int]) -> tuple[MigInstance, ...]:
    """Held instances whose profile the node does not have so often are not there any more."""
    total = _sum(all_held)
    return tuple(i for i in instances if total[i.profile] <= counts.get(i.profile, 0))


def _cards(fixed: Layout, gpus: int, whole: int) -> list[int]:
    """The GPUs that may carry instances: those that do, then the last ones."""
    others = [gpu for gpu in reversed(range(gpus)) if gpu not in fixed]
    return sorted([*fixed, *others[: max(0, gpus - whole - len(fixed))]])


def _spread(model: GpuModel, left: Counter[str], cards: list[int], fixed: Layout) -> Layout | None:
    """The same on every card, as the usual configurations are; None where that is not so."""
    if fixed or not cards or any(n % len(cards) for n in left.values()):
        return None
    one = _fill(model, Counter({p: n // len(cards) for p, n in left.items()}), ())
    return None if one is None else {gpu: one for gpu in cards}


def _first_fit(model: GpuModel, left: Counter[str], cards: list[int], fixed: Layout) -> Layout:
    found: Layout = {gpu: fixed.get(gpu, ()) for gpu in cards}
    for profile in _big_first(model, left):
        for gpu in cards:
            while left[profile.name] > 0 and (new := _fill(model, Counter({profile.name: 1}), found[gpu])) is not None:
                found[gpu] = new
                left[profile.name] -= 1
    return {gpu: instances for gpu, instances in found.items() if instances}


def _fill(
    model: GpuModel, wanted: Counter[str], there: tuple[MigInstance, ...], before: MigInstance | None = None
) -> tuple[MigInstance, ...] | None:
    """`there` with all of `wanted` beside it, or None. Big profiles first, from the far end, with a way back.

    Instances alike are tried in one order only: each starts before the one placed `before`.
    """
    profile = next(_big_first(model, wanted), None)
    if profile is None:
        return tuple(sorted(there)) if not +wanted else None
    rest = Counter(wanted)
    rest[profile.name] -= 1
    for start in reversed(profile.starts):
        if before is not None and before.profile == profile.name and start >= before.start:
            continue
        new = MigInstance(start, profile.name)
        if (
            illegal_layout(model, (*there, new)) is None
            and (done := _fill(model, rest, (*there, new), new)) is not None
        ):
            return done
    return None


def _big_first(model: GpuModel, wanted: Counter[str]) -> Iterator[MigProfile]:
    named = [p for p in model.profiles if wanted[p.name] > 0]
    return iter(sorted(named, key=lambda p: (-p.size, -p.compute, p.name)))


def _sum(layout: Layout) -> Counter[str]:
    return Counter(i.profile for instances in layout.values() for i in instances)


def _is_legal(model: GpuModel, layout: Layout) -> bool:
    return all(illegal_layout(model, instances) is None for instances in layout.values())
