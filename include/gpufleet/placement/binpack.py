"""Exact assignment of unlike pods to nodes by depth-first search with a budget."""

from __future__ import annotations

from collections.abc import Sequence

Vector = tuple[float, float, float]
"""(GPUs, CPU cores, host MiB)"""

MOST_PODS = 200
"""Larger gangs of unlike pods are left to the greedy pass."""

BUDGET = 20_000
"""Steps before giving up: some tens of milliseconds. Chosen by feeling; a gang of twelve unlike pods stays below."""


def assign(needs: Sequence[Vector], room: Sequence[Vector]) -> list[int] | None:
    """For each need the index of its node, or None when no assignment exists (or none was found in the budget)."""
    if len(needs) > MOST_PODS:
        return None
    order = sorted(range(len(needs)), key=lambda i: (tuple(-x for x in needs[i]), i))
    search = _Search([needs[i] for i in order], [list(r) for r in room])
    if not search.run(0):
        return None
    found = [0] * len(needs)
    for position, pod in enumerate(order):
        found[pod] = search.chosen[position]
    return found


class _Search:
    def __init__(self, needs: list[Vector], room: list[list[float]]) -> None:
        self.needs, self.room = needs, room
        self.chosen = [-1] * len(needs)
        self.steps = 0

    def run(self, position: int) -> bool:
        if position == len(self.needs):
            return True
        need = self.needs[position]
        seen: set[tuple[float, ...]] = set()
        for node in sorted(range(len(self.room)), key=lambda n: (self.room[n][0], n)):
            have = tuple(self.room[node])
            self.steps += 1
            if self.steps > BUDGET:
                return False
            if have in seen or any(h < n for h, n in zip(have, need, strict=True)):
                continue
            seen.add(have)  # equal nodes are tried once
            self.room[node] = [h - n for h, n in zip(have, need, strict=True)]
            self.chosen[position] = node
            if self.run(position + 1):
                return True
            self.room[node] = list(have)
        return False
