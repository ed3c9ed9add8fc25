"""A mixed-integer linear program as it is written down, variable by variable, and its solution by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Key = tuple[object, ...]


@dataclass(slots=True)
class Program:
    """Rows and columns as they are written down: a variable is a key, a row its coefficients and its bounds."""

    costs: dict[Key, float] = field(default_factory=dict)
    uppers: dict[Key, float] = field(default_factory=dict)
    rows: list[tuple[dict[Key, float], float, float]] = field(default_factory=list)
    free: set[Key] = field(default_factory=set)
    """Variables that need not be whole."""

    def add(self, key: Key, cost: float = 0.0, upper: float = float("inf"), *, whole: bool = True) -> Key:
        self.costs[key], self.uppers[key] = cost, upper
        if not whole:
            self.free.add(key)
        return key

    def bound(self, row: dict[Key, float], low: float, high: float) -> None:
        if row:
            self.rows.append((row, low, high))


def optimum(program: Program, seconds: float, gap: float) -> tuple[dict[Key, int] | None, float]:
    """Whole numbers by variable, and by what part they may lie above the least cost; None where `seconds` were too few
    for any solution. It may stop within `gap`."""
    if not program.costs:
        return {}, 0.0
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    keys = list(program.costs)
    matrix = _matrix(program, {key: n for n, key in enumerate(keys)})
    found = milp(
        c=np.array([program.costs[key] for key in keys]),
        integrality=np.array([0 if key in program.free else 1 for key in keys]),
        bounds=Bounds(0, np.array([program.uppers[key] for key in keys])),
        constraints=LinearConstraint(
            matrix, [low for _, low, _ in program.rows], [high for _, _, high in program.rows]
        ),
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    if found.x is None:
        return None, float("inf")
    return {key: round(value) for key, value in zip(keys, found.x, strict=True)}, float(found.mip_gap or 0.0)


def _matrix(program: Program, place: dict[Key, int]) -> Any:
    from scipy.sparse import csr_array

    cells = [(r, place[key], value) for r, (row, _, _) in enumerate(program.rows) for key, value in row.items()]
    rows, columns, values = zip(*cells, strict=True)
    return csr_array((values, (rows, columns)), shape=(len(program.rows), len(place)))
