"""Fair share: what is deserved first, then the surplus by weight, level by level, for each GPU model apart.

A parent's fair share is what its children divide (KAI's resource division, reference/schedulers.md B1). All exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.quota.tree import ROOT, Tree

Wanted = Mapping[str, Mapping[str, int]]
"""Grains by leaf queue and model: what it uses and what it waits for."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One sibling's claim when a level is divided."""

    queue: str
    deserved: Fraction
    weight: Fraction
    wanted: Fraction


def fair_shares(tree: Tree, wanted: Wanted, capacity: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """(queue, model) -> grains, rounded down, for every queue of the tree."""
    shares: dict[tuple[str, str], int] = {}
    for model, grains in sorted(capacity.items()):
        _divide_children(tree, wanted, ROOT, model, Fraction(grains), shares)
    return shares


def _divide_children(
    tree: Tree, wanted: Wanted, parent: str, model: str, amount: Fraction, shares: dict[tuple[str, str], int]
) -> None:
    claims = [_claim(tree, wanted, name, model) for name in sorted(tree.children.get(parent, ()))]
    for queue, share in divide(claims, amount).items():
        shares[queue, model] = int(share)
        _divide_children(tree, wanted, queue, model, share, shares)


def _claim(tree: Tree, wanted: Wanted, queue: str, model: str) -> Claim:
    want = _wanted(tree, wanted, queue)
    weight = Fraction(str(tree.weight(queue)))
    return Claim(queue, _deserved(tree, queue, model, want), weight, Fraction(want.get(model, 0)))


def _wanted(tree: Tree, wanted: Wanted, queue: str) -> dict[str, int]:
    """By model, children's wants summed, cut at the limits."""
    found = dict(wanted.get(queue, {}))
    for child in tree.children.get(queue, ()):
        for model, grains in _wanted(tree, wanted, child).items():
            found[model] = found.get(model, 0) + grains
    limit = tree.limits.get(queue, {})
    top = limit.get(ANY_MODEL)
    for model, grains in found.items():
        caps = [cap for cap in (limit.get(model), top) if cap is not None]
        found[model] = min([grains, *caps])
    return found


def _deserved(tree: Tree, queue: str, model: str, want: Mapping[str, int]) -> Fraction:
    """What of `model` the queue deserves. A `*` is spread over the models it wants, in proportion."""
    amounts = tree.deserved(queue)
    own = amounts.get(model)
    if ANY_MODEL not in amounts:
        return Fraction(own or 0)
    total = sum(want.values())
    part = Fraction(amounts[ANY_MODEL] * want.get(model, 0), total) if total else Fraction(0)
    return part if own is None else min(Fraction(own), Fraction(amounts[ANY_MODEL]))


def divide(claims: list[Claim], amount: Fraction) -> dict[str, Fraction]:
    """Deserved first (all scaled down pro rata where that is too much), then the surplus by weight."""
    due = {c.queue: min(c.deserved, c.wanted) for c in claims}
    if sum(due.values()) > amount:
        return pour({c.queue: (c.deserved, due[c.queue]) for c in claims}, amount)
    surplus = pour({c.queue: (c.weight, c.wanted - due[c.queue]) for c in claims}, amount - sum(due.values()))
    return {c.queue: due[c.queue] + surplus[c.queue] for c in claims}


def pour(vessels: Mapping[str, tuple[Fraction, Fraction]], amount: Fraction) -> dict[str, Fraction]:
    """Divide an amount by weight among (weight, most); what overflows goes to the others. Weight 0 gets nothing."""
    filled = dict.fromkeys(vessels, Fraction(0))
    open_ones = [name for name, (weight, most) in vessels.items() if weight > 0 and most > 0]
    while amount > 0 and open_ones:
        weights = sum(vessels[name][0] for name in open_ones)
        full = [n for n in open_ones if vessels[n][1] <= amount * vessels[n][0] / weights]
        if not full:
            for name in open_ones:
                filled[name] = amount * vessels[name][0] / weights
            return filled
        for name in full:
            filled[name] = vessels[name][1]
            amount -= filled[name]
            open_ones.remove(name)
    return filled
