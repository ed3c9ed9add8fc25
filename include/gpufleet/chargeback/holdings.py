"""From allocated and released to stretches: who held which GPU from when to when (rules 7 to 12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Final

from gpufleet.chargeback.days import FOREVER, micros
from gpufleet.chargeback.evidence import Evidence, Place, Quarantine
from gpufleet.chargeback.nodes import Life, Shape
from gpufleet.chargeback.rates import MigShare
from gpufleet.model.hardware import GpuModel, MigProfile
from gpufleet.model.usage import Allocated, QuotaMark, Released

WHOLE: Final = -1
"""Stands for the slice start of a whole GPU or a share, so that it sorts before every slice (rules 17, 19, 21)."""


@dataclass(slots=True, eq=False)
class Stretch:
    """One stretch of one holding, [begin, end). Firm where it ended by its own release or rule 8, else loose (rule 13).

    The claims may still move the end of a loose one to its last proof of life.
    """

    event: Allocated
    begin: int
    end: int = FOREVER
    firm: bool = False
    slot: int = WHOLE
    cells: range = range(0)
    """Memory slices of a MIG slice; empty for a whole GPU or a share."""
    part: Fraction = Fraction(1)
    """How much of the GPU it is before rule 18 looks at the others."""

    @property
    def place(self) -> Place:
        return self.event.job, self.event.attempt, self.event.node, self.event.gpu

    @property
    def is_slice(self) -> bool:
        return self.slot != WHOLE

    @property
    def is_share(self) -> bool:
        return self.event.fraction is not None

    @property
    def is_guaranteed(self) -> bool | None:
        """As the scheduler marked it; None where it did not."""
        return None if self.event.quota is None else self.event.quota is QuotaMark.GUARANTEED


def stretches(
    evidence: Evidence, lives: Mapping[str, Life], mig_share: MigShare, quarantine: Quarantine
) -> list[Stretch]:
    """Every stretch that can have been; the others are named."""
    found: list[Stretch] = []
    for (_, _, node, gpu), events in evidence.holdings.items():
        holder = _Holder(lives[node], gpu, quarantine)
        found += [s for s in holder.play(events) if _is_possible(s, lives[node], mig_share, quarantine)]
    return found


class _Holder:
    """Plays what one attempt did with one GPU, instant by instant."""

    def __init__(self, life: Life, gpu: int, quarantine: Quarantine) -> None:
        self._life, self._gpu, self._quarantine = life, gpu, quarantine
        self._open: dict[int, Stretch] = {}
        self._ended: list[Stretch] = []

    def play(self, events: Iterable[Allocated | Released]) -> list[Stretch]:
        by_time = sorted(events, key=lambda e: (e.at, e.id))
        for at, told in groupby(by_time, key=lambda e: e.at):
            self._instant(micros(at), list(told))
        for held in list(self._open.values()):
            self._close(held, FOREVER)
        return self._ended

    def _instant(self, at: int, told: list[Allocated | Released]) -> None:
        # sorted by id, so of two allocations of one holding the greater id stays (rule 8)
        opening = {_slot(e): e for e in told if isinstance(e, Allocated)}
        ending: set[int] = set()
        unborn: set[int] = set()
        for event in told:
            if isinstance(event, Released):
                before, now = _meant(event, self._open), _meant(event, opening)
                ending |= before
                unborn |= set() if before else now
                if not before and not now:
                    self._quarantine.add(event.id, "released, but nothing was held there")
        for slot in sorted(ending):
            self._close(self._open[slot], at)
        for slot in sorted(opening.keys() - unborn):
            self._allocate(slot, opening[slot], at)

    def _allocate(self, slot: int, event: Allocated, at: int) -> None:
        held = self._open.get(slot)
        if held is not None:
            if _terms(held.event) == _terms(event) and at < self._life.gone(held.begin, self._gpu)[0]:
                return
            self._close(held, at)
        self._open[slot] = Stretch(event, at, slot=slot)

    def _close(self, held: Stretch, at: int) -> None:
        """End it here, or where the node or the GPU went away before: a node-down leaves it loose (rule 13)."""
        gone, by_node = self._life.gone(held.begin, self._gpu)
        held.end = min(at, gone)
        held.firm = at != FOREVER and not (by_node and gone < at)
        self._ended.append(self._open.pop(held.slot))


def _slot(event: Allocated) -> int:
    return WHOLE if event.start is None else event.start


def _meant(event: Released, holdings: Iterable[int]) -> set[int]:
    """Which of these holdings a release ends: all, or with `start` that slice."""
    return {slot for slot in holdings if event.start is None or slot == event.start}


def _terms(event: Allocated) -> tuple[object, ...]:
    """What makes a repeated allocation a new stretch (rule 8)."""
    return event.team, event.project, event.quota, event.priority, event.profile, event.fraction


# ---------------------------------------------------------------- what can have been


def _is_possible(held: Stretch, life: Life, mig_share: MigShare, quarantine: Quarantine) -> bool:
    """Rules 11 and 12; gives the stretch its part of the GPU."""
    shape = life.at(held.begin)
    for why in _impossible(held, life, shape):
        quarantine.add(held.event.id, why)
        return False
    if held.event.fraction is not None:
        held.part = held.event.fraction
    elif held.event.profile is not None and shape is not None:
        profile = shape.model.profile(held.event.profile)
        if profile is not None:
            held.cells = range(held.slot, held.slot + profile.size)
            held.part = slice_part(shape.model, profile, mig_share)
    return True


def _impossible(held: Stretch, life: Life, shape: Shape | None) -> Iterator[str]:
    event = held.event
    if shape is None:
        if life.announced:
            yield f"{event.node} was not up then"
        elif held.is_slice:
            yield f"a slice on {event.node}, which no node-up describes"
    elif event.gpu >= shape.up.gpus:
        yield f"{event.node} has no GPU {event.gpu}, it has {shape.up.gpus}"
    elif event.profile is not None:
        profile = shape.model.profile(event.profile)
        if profile is None:
            yield f"{shape.up.model} has no MIG profile {event.profile}"
        elif held.slot not in profile.starts:
            yield f"{event.profile} cannot start at {held.slot} on {shape.up.model}"


def slice_part(model: GpuModel, profile: MigProfile, by: MigShare) -> Fraction:
    """How much of a GPU a slice is (rule 18)."""
    compute = Fraction(profile.compute, model.compute_slices)
    memory = Fraction(profile.size, model.memory_slices)
    if by is MigShare.COMPUTE:
        return compute
    return memory if by is MigShare.MEMORY else max(compute, memory)
