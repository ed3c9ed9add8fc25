"""What became known after a month was closed: the difference, booked in the month that is open.

Ledger style: a correction is what the ledger says now, less what was closed, less what was corrected before; for each
job, day and kind one line. So closed + corrections is always what the whole ledger now says, a second run books
nothing, and a further late fact books only the further difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256

from gpufleet.model.charge import Charge, ChargeKind

Place = tuple[str, str, str, str, str, str, str, str, int, str]
"""Day, team, project, job, kind, quota, commitment, node, attempt (0: none), note: what a correction keeps apart."""


@dataclass(slots=True)
class _Sum:
    begin: datetime
    end: datetime
    cost: int = 0
    billed: int = 0
    hours: int = 0

    def add(self, charge: Charge, sign: int) -> None:
        self.cost += sign * charge.cost_nano
        self.billed += sign * charge.billed_nano
        self.hours += sign * charge.hours_nano
        self.begin, self.end = min(self.begin, charge.begin), max(self.end, charge.end)

    @property
    def is_nothing(self) -> bool:
        return not (self.cost or self.billed or self.hours)


def corrections(
    month: str,
    closed: Iterable[Charge],
    corrected: Iterable[Charge],
    known: Iterable[Charge],
    open_day: date,
) -> Iterator[Charge]:
    """Charges of `open_day` that take the closed month to what is known now, ordered; nothing where all is said.

    `closed`: the month's charges as they were closed; `corrected`: what earlier corrections said about it; `known`:
    the charges that the ledger makes of the month's days today. Times are those of the use itself.
    """
    sums: dict[Place, _Sum] = {}
    before: dict[Place, int] = {}
    for charges, sign in ((closed, -1), (corrected, -1), (known, 1)):
        for charge in charges:
            place = _place(charge)
            sums.setdefault(place, _Sum(charge.begin, charge.end)).add(charge, sign)
            before[place] = before.get(place, 0) + bool(charge.corrects)
    for place, found in sorted(sums.items()):
        if not found.is_nothing:
            yield _correction(month, place, found, open_day, before[place])


def _place(charge: Charge) -> Place:
    """Where its use was: an earlier correction says that day in its id, its own day is the one it was booked on."""
    day = charge.id.removeprefix("correction/").partition("/")[0] if charge.corrects else charge.day.isoformat()
    return (
        day, charge.team, charge.project, charge.job, charge.kind.value, charge.quota, charge.commitment, charge.node,
        charge.attempt or 0, charge.note,
    )  # fmt: skip


def _correction(month: str, place: Place, found: _Sum, open_day: date, before: int) -> Charge:
    """`before`: how many corrections the place had, so that the next one of the same amount has another id."""
    day, team, project, job, kind, quota, commitment, node, attempt, note = place
    told = "\0".join((*map(str, place), str(before)))
    return Charge(
        id=f"correction/{day}/{sha256(told.encode()).hexdigest()[:32]}",
        day=open_day,
        kind=ChargeKind(kind),
        begin=found.begin,
        end=found.end,
        team=team,
        project=project,
        cost_nano=found.cost,
        billed_nano=found.billed,
        hours_nano=found.hours,
        job=job,
        attempt=attempt or None,
        node=node,
        quota=quota,
        commitment=commitment,
        corrects=month,
        note=note,
    )
