"""Ranges that figures must lie in, with the reason for each: `ranges.yaml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments import read_yaml
from gpufleet.errors import Invalid

FILE: Final = Path(__file__).parent / "ranges.yaml"


@dataclass(frozen=True, slots=True)
class Range:
    """From `least` to `most`, both included; `why` says where the bounds come from."""

    figure: str
    """A figure's name; * stands for any words."""
    least: float
    most: float
    why: str

    def holds(self, value: float) -> bool:
        """Not for a figure that is no number."""
        return self.least <= value <= self.most

    @property
    def shown(self) -> str:
        if math.isinf(self.most):
            return f"at least {self.least:g}"
        return f"at most {self.most:g}" if math.isinf(self.least) else f"{self.least:g} to {self.most:g}"


def read_ranges(profile: str, path: Path = FILE) -> list[Range]:
    """Ranges of a profile, in the order of the file. Raises Invalid that names the line's figure."""
    sections = read_yaml(path)
    if not isinstance(sections, dict) or profile not in sections:
        raise Invalid(f"{path.name}: has no section '{profile}'.")
    shared = sections.get("both") or {}
    return [_range(path, figure, values) for figure, values in (*shared.items(), *sections[profile].items())]


def _range(path: Path, figure: str, values: Any) -> Range:
    if not isinstance(values, dict) or not values.keys() <= {"least", "most", "why"} or len(values) < 2:
        raise Invalid(f"{path.name}: {figure}: needs least or most or both, and why.")
    least, most = values.get("least", -math.inf), values.get("most", math.inf)
    if not all(isinstance(bound, int | float) for bound in (least, most)) or least > most:
        raise Invalid(f"{path.name}: {figure}: least and most are numbers, least not above most.")
    if not isinstance(values.get("why"), str) or values.keys() == {"why"}:
        raise Invalid(f"{path.name}: {figure}: a range says why in words.")
    return Range(figure, float(least), float(most), values["why"])


def range_of(figure: str, ranges: list[Range]) -> Range | None:
    """The line of that very name, else the first whose pattern matches."""
    exact = next((r for r in ranges if r.figure == figure), None)
    return exact or next((r for r in ranges if fnmatchcase(figure, r.figure)), None)


def wrong(figures: Mapping[str, float], ranges: list[Range]) -> list[str]:
    """A sentence for each figure outside its range, without one, and for each range of a name that was not measured."""
    found, used = [], set()
    for figure, value in figures.items():
        its = range_of(figure, ranges)
        if its is None:
            found.append(f"{figure} is {value:.4g} and has no range in {FILE.name}.")
            continue
        used.add(its.figure)
        if not its.holds(value):
            found.append(f"{figure} is {value:.5g}, outside its range ({its.shown}): {its.why}.")
    idle = [r.figure for r in ranges if r.figure not in used and "*" not in r.figure]
    return found + [f"{figure} is in {FILE.name}, but nothing of that name was measured." for figure in idle]
