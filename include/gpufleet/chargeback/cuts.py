"""Charges that are cut to the nano-unit one by one, and made to add up when the sums are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gpufleet.chargeback.tally import Line
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.usage import QuotaMark


class Cell(NamedTuple):
    """One number of the exact bill: guaranteed, over_quota, usage or commitment of a line."""

    line: Line
    column: str


class Cuts:
    """Knows of each cell what its charges are so far, and which of them is the largest."""

    def __init__(self) -> None:
        self._cut: dict[Cell, int] = defaultdict(int)
        self._largest: dict[Cell, tuple[int, str]] = {}
        """Units with their sign turned, and the id: the least is the largest charge, of equals the first by id."""
        self._left: dict[Cell, int] = {}

    def note(self, charge: Charge) -> None:
        """A charge of use, before it is mended."""
        for cell, units in _cells(charge):
            self._cut[cell] += units
            self._largest[cell] = min(self._largest.get(cell, (1, "")), (-units, charge.id))

    def cut(self, cell: Cell) -> int:
        """The sum of its charges."""
        return self._cut.get(cell, 0)

    def close(self, cell: Cell, units: int) -> None:
        """So much is the cell; what the cuts leave of it is given out by `mend`."""
        self._left[cell] = units - self.cut(cell)

    def mend(self, charge: Charge) -> Charge:
        """The charge as it counts: the largest takes what the cuts left; what they gave too much anyone gives back."""
        for cell, units in _cells(charge):
            left = self._left[cell]
            largest = self._largest[cell] == (-units, charge.id)
            given = (left if largest else 0) if left >= 0 else -min(units, -left)
            if given:
                self._left[cell] -= given
                charge = _with(charge, cell.column, given)
        return charge


def _cells(charge: Charge) -> Iterator[tuple[Cell, int]]:
    line = (charge.team, charge.project)
    hours = "over_quota" if charge.quota == QuotaMark.OVER_QUOTA else "guaranteed"
    yield Cell(line, hours), charge.hours_nano
    yield Cell(line, "commitment" if charge.kind is ChargeKind.COMMITTED_USE else "usage"), charge.cost_nano


def _with(charge: Charge, column: str, units: int) -> Charge:
    if column == "commitment":
        return replace(charge, cost_nano=charge.cost_nano + units)
    if column == "usage":
        return replace(charge, cost_nano=charge.cost_nano + units, billed_nano=charge.billed_nano + units)
    return replace(charge, hours_nano=charge.hours_nano + units)
