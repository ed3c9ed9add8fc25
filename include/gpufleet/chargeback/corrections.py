"""What a closed month should have cost by what is known now, less what it was closed with and what was corrected since.

Ledger style: one charge for each thing that differs, booked in the open month, with the time it was about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from hashlib import blake2b

from gpufleet.model.charge import Charge

Thing = tuple[object, ...]
"""What a charge is about, whatever it comes to."""


def corrections(known_now: Iterable[Charge], booked: Iterable[Charge], month: str, day: date) -> Iterator[Charge]:
    """Charges of `day` that bring `booked` (the closed month and its corrections so far) to what is known now."""
    sums: dict[Thing, list[int]] = {}
    first: dict[Thing, Charge] = {}
    for sign, charges in ((1, known_now), (-1, booked)):
        for charge in charges:
            thing = about(charge)
            first.setdefault(thing, charge)
            sum_ = sums.setdefault(thing, [0, 0, 0])
            for i, amount in enumerate((charge.cost_nano, charge.billed_nano, charge.hours_nano)):
                sum_[i] += sign * amount
    for thing, (cost, billed, hours) in sorted(sums.items(), key=lambda item: str(item[0])):
        if cost or billed or hours:
            like = first[thing]
            yield replace(
                like,
                id=blake2b(f"{month}\x1f{thing}".encode(), digest_size=12).hexdigest(),
                day=day,
                cost_nano=cost,
                billed_nano=billed,
                hours_nano=hours,
                estimated=False,
                corrects=month,
            )


def about(charge: Charge) -> Thing:
    """Two charges about the same thing differ in amount, price, id or time, not in whom and what they are for."""
    c = charge
    return (
        c.kind.value, c.team, c.project, c.job, c.attempt, c.node, c.gpu, c.profile, c.start, c.fraction, c.quota,
        c.commitment, c.model, c.capacity, c.note,
    )  # fmt: skip
