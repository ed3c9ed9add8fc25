"""Work that was paid for and lost: what an interrupted attempt did after its last save.

A loss is a fact of one attempt; which part of a charge it takes is time: of a charge of an hour whose last ten minutes
were lost, a sixth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import Final

from gpufleet.model.charge import Charge, ChargeKind


class Fault(StrEnum):
    """Who ended an attempt before its work was saved."""

    PLATFORM = "platform"
    """A node lost, a spot reclaim, a preemption or a move by us."""
    JOB = "job"
    """Its own exit, its own memory, its owner's cancel: never credited."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The work of [since, until) of one attempt is gone. Aware UTC; `why` is for people."""

    job: str
    attempt: int
    since: datetime
    until: datetime
    fault: Fault
    why: str = ""


Losses = Mapping[tuple[str, int], Loss]
"""By job and attempt."""

PAID: Final = frozenset({ChargeKind.USE, ChargeKind.COMMITTED_USE})
MICROSECOND: Final = timedelta(microseconds=1)


def lost_part(charge: Charge, losses: Losses) -> Fraction:
    """Which part of the charge paid for work that was lost: 0 to 1."""
    if charge.attempt is None or charge.kind not in PAID or charge.corrects:
        return Fraction(0)
    loss = losses.get((charge.job, charge.attempt))
    if loss is None or charge.begin >= charge.end:
        return Fraction(0)
    lost = min(charge.end, loss.until) - max(charge.begin, loss.since)
    return Fraction(max(lost, timedelta(0)) // MICROSECOND, (charge.end - charge.begin) // MICROSECOND)


def credits_for(charges: Iterable[Charge], losses: Losses, share: Fraction) -> Iterator[Charge]:
    """What the platform gives back of the charges: `share` (0 to 1) of the cost of work that it lost itself.

    Cut down to a nano-unit, so a credit is never above what was charged. What is no use is passed over; running twice
    gives the same ids.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share of {share} is not between 0 and 1")
    for charge in charges:
        part = lost_part(charge, losses)
        if not part:
            continue
        loss = losses[charge.job, charge.attempt or 0]
        back = int(charge.cost_nano * part * share)
        if loss.fault is Fault.PLATFORM and back > 0:
            yield _credit(charge, loss, back)


def _credit(charge: Charge, loss: Loss, back: int) -> Charge:
    return Charge(
        id=sha256(f"credit/{charge.day}/{charge.id}".encode()).hexdigest()[:32],
        day=charge.day,
        kind=ChargeKind.CREDIT,
        begin=max(charge.begin, loss.since),
        end=min(charge.end, loss.until),
        team=charge.team,
        project=charge.project,
        cost_nano=-back,
        billed_nano=-int(Fraction(charge.billed_nano * back, charge.cost_nano)),
        job=charge.job,
        attempt=charge.attempt,
        node=charge.node,
        gpu=charge.gpu,
        model=charge.model,
        note=f"work lost by the platform: {loss.why}" if loss.why else "work lost by the platform",
    )
