"""One day's bill by its reasons: every charge in nano-units, and all of it adds up.

The day's exact bill (rules 25 to 28 with nine decimals) says what each line and column is. A charge is cut to the nano-unit
by itself, so what comes late about one changes no other; what the cuts leave of a cell goes to its largest charge. So
charges sum to the bill in every line and column, and to the day's cost in all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from hashlib import blake2b

from gpufleet.chargeback.buckets import Buckets
from gpufleet.chargeback.cuts import Cell, Cuts
from gpufleet.chargeback.days import EPOCH, HOUR, Day, micros
from gpufleet.chargeback.holdings import Stretch
from gpufleet.chargeback.rates import PLATFORM, Commitment, Rates
from gpufleet.chargeback.sharing import Account
from gpufleet.chargeback.statement import Bill, BillLine, deal, deal_whole, half_up
from gpufleet.chargeback.tally import DayTally, Entry, Line, Scale
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.usage import QuotaMark

NANO = 10**9
HELD = "held"
"""The bucket of charges that are written but for what the cuts leave."""


@dataclass(slots=True)
class Book:
    """The charges of one day. What ended is written at once and laid aside; at the end all of it is made to add up."""

    tally: DayTally
    rates: Rates
    laid_aside: Buckets
    _cuts: Cuts = field(default_factory=Cuts)
    _bears: dict[str, list[tuple[Line, int]]] = field(default_factory=lambda: defaultdict(list))
    """By commitment the lines of its owner, and what each bears of its unused part."""
    _scale: Scale = Scale(1, 1)

    @property
    def _day(self) -> Day:
        return self.tally.day

    def write(self, scale: Scale, until: int) -> None:
        """Write down what is over at `until`; it need not be known any longer."""
        self._scale = scale
        assert self.tally.entries is not None, "a day of which charges are wanted"
        over = [
            key
            for key, e in self.tally.entries.items()
            if e.stretch is not None and (e.stretch.end <= until or until == self._day.end)
        ]
        for key in over:
            entry = self.tally.entries.pop(key)
            if entry.stretch is not None:
                self._write(entry, entry.stretch)

    def charges(self, account: Account, scale: Scale, exact: Bill) -> Iterator[Charge]:
        """All of the day. `exact` is its bill in nano-units. In no particular order."""
        self._scale = scale
        causes: dict[tuple[str, Line], list[tuple[str, Fraction]]] = defaultdict(list)
        for (column, what, who), amount in account.causes.items():
            causes[column, who].append((what, amount))
        yield from self._idle(exact)
        for line in exact.lines:
            self._close(line, causes)
            yield from self._borne(line, causes)
        for charge in self.laid_aside.take(HELD):
            yield self._cuts.mend(charge)
        yield from self._unused(account, exact)
        yield from self._purchases()

    # ---------------------------------------------------------------- what was held

    def _write(self, entry: Entry, stretch: Stretch) -> None:
        factor = self.rates.over_quota_factor if entry.over and entry.commitment is None else Fraction(1)
        units = self._scale.grains * HOUR
        hours = entry.spans * NANO // units
        cost = entry.cost * NANO * factor.numerator // (units * self._scale.coins * factor.denominator)
        charge = self._held(entry, stretch, hours, cost)
        self._cuts.note(charge)
        self.laid_aside.put(HELD, charge)

    def _close(self, line: BillLine, causes: dict[tuple[str, Line], list[tuple[str, Fraction]]]) -> None:
        """The line's cells are known; what stands for unused commitments of its own is noted for `_unused`."""
        who: Line = (line.team, line.project or "")
        for column, units in (("guaranteed", line.guaranteed), ("over_quota", line.over_quota), ("usage", line.usage)):
            self._cuts.close(Cell(who, column), units)
        committed, unused = Cell(who, "commitment"), causes["commitment", who]
        borne = max(0, line.commitment - self._cuts.cut(committed)) if any(cost for _, cost in unused) else 0
        self._cuts.close(committed, line.commitment - borne)
        for (what, _), units in zip(unused, deal(borne, [cost for _, cost in unused]), strict=True):
            self._bears[what].append((who, units))

    def _held(self, entry: Entry, stretch: Stretch, hours: int, cost: int) -> Charge:
        e = stretch.event
        mark = QuotaMark.OVER_QUOTA if entry.over else QuotaMark.GUARANTEED
        found = self._priced(entry, ChargeKind.USE, hours, cost)
        return replace(
            found,
            id=_id(e.job, e.attempt, e.node, e.gpu, stretch.slot, stretch.begin, mark, *_terms(entry)),
            team=e.team,
            project=e.project,
            job=e.job,
            attempt=e.attempt,
            gpu=e.gpu,
            profile=e.profile or "",
            start=e.start,
            fraction="" if e.fraction is None else str(e.fraction),
            quota=mark.value,
            estimated=not stretch.firm,
        )

    def _priced(self, entry: Entry, kind: ChargeKind, hours: int, cost: int) -> Charge:
        """What an entry says by itself; one that a commitment covers is paid with the commitment."""
        up, committed = entry.up, entry.commitment is not None
        if committed and kind is ChargeKind.USE:
            kind = ChargeKind.COMMITTED_USE
        factor = self.rates.over_quota_factor if entry.over and not committed else Fraction(1)
        return Charge(
            id="",
            day=self._day.date,
            kind=kind,
            begin=_instant(entry.begin),
            end=_instant(entry.end),
            team=PLATFORM,
            project="",
            cost_nano=cost,
            billed_nano=0 if committed else cost,
            hours_nano=hours,
            list_price_nano=_nano(entry.listed, self._scale.coins, Fraction(1)),
            price_nano=_nano(entry.price, self._scale.coins, factor),
            node=entry.node,
            model=up.model if up else "",
            capacity=up.capacity if up else "",
            provider=(up.provider or "") if up else "",
            region=(up.region or "") if up else "",
            commitment="" if entry.commitment is None else self.rates.commitments[entry.commitment].id,
        )

    # ---------------------------------------------------------------- what nobody held

    def _idle(self, exact: Bill) -> Iterator[Charge]:
        """Idle GPUs by node, with the platform; what lines bear of it is moved by `_borne`."""
        entries = sorted((self.tally.entries or {}).values(), key=lambda e: (e.node, e.begin, str(_terms(e))))
        cost = exact.idle_cost + sum(line.idle for line in exact.lines)
        hours = deal_whole(exact.idle_hours, [e.spans for e in entries])
        for entry, h, c in zip(entries, hours, deal_whole(cost, [e.cost for e in entries]), strict=True):
            found = self._priced(entry, ChargeKind.IDLE, h, c)
            yield replace(found, id=_id("idle", entry.node, *_terms(entry)))

    def _borne(self, line: BillLine, causes: dict[tuple[str, Line], list[tuple[str, Fraction]]]) -> Iterator[Charge]:
        """What the line bears that it did not use."""
        who: Line = (line.team, line.project or "")
        idle, shared = causes["idle", who], causes["shared", who]
        for (what, _), units in zip(idle, deal(line.idle, [cost for _, cost in idle]), strict=True):
            share = self._cause(ChargeKind.IDLE_SHARE, line, what, units)
            yield replace(share, model=what)
            away = replace(
                share, id=_id("off", share.id), team=PLATFORM, project="", cost_nano=-units, billed_nano=-units
            )
            yield replace(away, model=what, note=f"borne by {line.team} {line.project}".rstrip())
        for (what, _), units in zip(shared, deal(line.shared, [cost for _, cost in shared]), strict=True):
            yield replace(self._cause(ChargeKind.SHARED, line, what, units), note=what)

    def _cause(self, kind: ChargeKind, line: BillLine, what: str, units: int) -> Charge:
        found = self._whole_day(kind, line.team, line.project or "", what)
        return replace(found, cost_nano=units, billed_nano=units)

    def _whole_day(self, kind: ChargeKind, team: str, project: str, what: str) -> Charge:
        return Charge(
            id=_id(kind, team, project, what),
            day=self._day.date,
            kind=kind,
            begin=_instant(self._day.begin),
            end=_instant(self._day.end),
            team=team,
            project=project,
            cost_nano=0,
        )

    # ---------------------------------------------------------------- commitments

    def _unused(self, account: Account, exact: Bill) -> Iterator[Charge]:
        """What commitments promised beyond what they covered, with who owns them."""
        known = sorted(account.unused.items())
        hours = deal(exact.unused_hours, [h for _, (h, _) in known])
        platform = [k for k, _ in known if self.rates.commitments[k].owner == PLATFORM]
        costs = dict(zip(platform, deal(exact.unused_cost, [account.unused[k][1] for k in platform]), strict=True))
        for (k, (whole, _)), h in zip(known, hours, strict=True):
            commitment = self.rates.commitments[k]
            if whole and commitment.owner == PLATFORM:
                yield self._left(commitment, PLATFORM, "", h, costs[k])
            elif whole:
                yield from self._owned(commitment, h)

    def _owned(self, commitment: Commitment, hours: int) -> Iterator[Charge]:
        """By the lines of its owner; the hours by what each bears."""
        bears = self._bears[commitment.id]
        if not sum(units for _, units in bears):
            yield self._left(commitment, commitment.owner, "", hours, 0)
            return
        parts = deal_whole(hours, [units for _, units in bears])
        for ((team, project), units), part in zip(bears, parts, strict=True):
            yield self._left(commitment, team, project, part, units)

    def _left(self, commitment: Commitment, team: str, project: str, hours: int, cost: int) -> Charge:
        found = self._whole_day(ChargeKind.UNUSED, team, project, commitment.id)
        match = commitment.match
        return replace(
            found,
            hours_nano=hours,
            cost_nano=cost,
            commitment=commitment.id,
            model=match.get("model", ""),
            capacity=match.get("capacity", ""),
            provider=match.get("provider", ""),
            region=match.get("region", ""),
        )

    def _purchases(self) -> Iterator[Charge]:
        """What is to be paid for commitments on this day: the upfront on the first of the term, the rest as it runs."""
        for commitment in self.rates.commitments:
            begin, end = micros(commitment.begin), micros(commitment.end)
            team = commitment.owner
            if commitment.upfront and self._day.begin <= begin < self._day.end:
                paid = half_up(commitment.upfront * NANO)
                first = self._whole_day(ChargeKind.PURCHASE, team, "", f"{commitment.id}, upfront")
                yield replace(first, billed_nano=paid, commitment=commitment.id, note="upfront")
            span = min(end, self._day.end) - max(begin, self._day.begin)
            if span > 0 and commitment.per_gpu_hour:
                hours = Fraction(span * commitment.gpus, HOUR)
                paid = half_up(hours * commitment.per_gpu_hour * NANO)
                rent = self._whole_day(ChargeKind.PURCHASE, team, "", f"{commitment.id}, recurring")
                yield replace(rent, billed_nano=paid, commitment=commitment.id, note="recurring")


# ------------------------------------------------------------------ small parts


def _terms(entry: Entry) -> tuple[object, ...]:
    return entry.up.id if entry.up else "", entry.commitment, entry.price, entry.listed, entry.begin


def _id(*parts: object) -> str:
    return blake2b("\x1f".join(map(str, parts)).encode(), digest_size=12).hexdigest()


@cache
def _nano(price: int | None, coins: int, factor: Fraction) -> int | None:
    return None if price is None else half_up(Fraction(price * NANO, coins) * factor)


def _instant(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)
