"""One rounding for amounts of any sign: whole units dealt so that they add up to what they were dealt from.

Where every amount is 0 or more this is rule 27. With credits and corrections among them a share of the total says
nothing (the total may be 0), so there each amount is cut down to whole units and those left go to the largest
remainders, in the order of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gpufleet.chargeback.statement import deal


def apportion(units: int, amounts: Sequence[int], unit: int) -> list[int]:
    """Deal `units` to the amounts, each of them a whole number of which `unit` make one unit.

    The shares sum to `units`, unless every amount is 0: then nobody gets anything.
    """
    if not any(amounts):
        return [0] * len(amounts)
    if min(amounts) >= 0:
        return deal(units, [Fraction(amount) for amount in amounts])
    shares = [amount // unit for amount in amounts]
    each, left = divmod(units - sum(shares), len(shares))
    order = sorted(range(len(amounts)), key=lambda i: -(amounts[i] % unit))
    for place, i in enumerate(order):
        shares[i] += each + (place < left)
    return shares


def nearest(amount: int, unit: int) -> int:
    """The nearest whole number of units, halves up."""
    return (2 * amount + unit) // (2 * unit)
