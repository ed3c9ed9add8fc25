"""Fair share: what is deserved first, then the surplus by weight, level by level, for each GPU model apart.

A parent's fair share is what its children divide (KAI's resource division, plugins/proportion). All exact.
With `usage_weight` k > 0, what a queue used lately bends its weight: w becomes max(0, w + k (w - used_lately)), where w
is its part of the weights of all that still want something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    lately: Fraction = Fraction(0)
    """Share of the capacity it used lately, decayed."""


Shares = dict[tuple[str, str], int]


def fair_shares(tree: Tree, wanted: Wanted, capacity: Mapping[str, int], usage_weight: float = 0.0) -> Shares:
    """(queue, model) -> grains, rounded down, for every queue of the tree."""
    shares: Shares = {}
    k = Fraction(str(usage_weight))
    for model, grains in sorted(capacity.items()):
        _divide_children(tree, wanted, ROOT, model, Fraction(grains), k, shares)
    return shares


def _divide_children(
    tree: Tree, wanted: Wanted, parent: str, model: str, amount: Fraction, k: Fraction, shares: Shares
) -> None:
    claims = [_claim(tree, wanted, name, model) for name in sorted(tree.children.get(parent, ()))]
    for queue, share in divide(claims, amount, k).items():
        shares[queue, model] = int(share)
        _divide_children(tree, wanted, queue, model, share, k, shares)


def _claim(tree: Tree, wanted: Wanted, queue: str, model: str) -> Claim:
    want = _wanted(tree, wanted, queue)
    weight = Fraction(str(tree.weight(queue)))
    due, lately = _deserved(tree, queue, model, want), Fraction(str(tree.used_lately(queue)))
    return Claim(queue, due, weight, Fraction(want.get(model, 0)), lately)


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


def divide(claims: list[Claim], amount: Fraction, k: Fraction = Fraction(0)) -> dict[str, Fraction]:
    """Deserved first (all scaled down pro rata where that is too much), then the surplus by weight."""
    due = {c.queue: min(c.deserved, c.wanted) for c in claims}
    if sum(due.values()) > amount:
        return pour({c.queue: (c.deserved, due[c.queue]) for c in claims}, amount)
    lately = {c.queue: c.lately for c in claims}
    vessels = {c.queue: (c.weight, c.wanted - due[c.queue]) for c in claims}
    surplus = pour(vessels, amount - sum(due.values()), lambda weights: bent(weights, lately, k))
    return {c.queue: due[c.queue] + surplus[c.queue] for c in claims}


Weights = Mapping[str, Fraction]


def as_they_are(weights: Weights) -> Weights:
    """Weights without a memory."""
    return weights


def bent(weights: Weights, lately: Weights, k: Fraction) -> Weights:
    """Less for who used much lately, more for who used little; as they are where nothing would be left of any."""
    together = sum(weights.values())
    parts = {name: weight / together for name, weight in weights.items()}
    found = {name: max(Fraction(0), part + k * (part - lately[name])) for name, part in parts.items()}
    return found if k and any(found.values()) else weights


def pour(
    vessels: Mapping[str, tuple[Fraction, Fraction]],
    amount: Fraction,
    weigh: Callable[[Weights], Weights] = as_they_are,
) -> dict[str, Fraction]:
    """Divide an amount by weight among (weight, most); what overflows goes to the others. Weight 0 gets nothing."""
    filled = dict.fromkeys(vessels, Fraction(0))
    open_ones = [name for name, (weight, most) in vessels.items() if weight > 0 and most > 0]
    while amount > 0 and open_ones:
        weights = weigh({name: vessels[name][0] for name in open_ones})
        together = sum(weights.values())
        full = [n for n in open_ones if vessels[n][1] * together <= amount * weights[n]]
        if not full:
            for name in open_ones:
                filled[name] = amount * weights[name] / together
            return filled
        for name in full:
            filled[name] = vessels[name][1]
            amount -= filled[name]
            open_ones.remove(name)
    return filled
