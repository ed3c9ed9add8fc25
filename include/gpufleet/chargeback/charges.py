"""One day's bill by its reasons: every charge in nano-units, dealt from the exact bill down, so that all of it adds up.

The day's exact bill (rules 25 to 28 with nine decimals) says what each line and column is; the entries and causes behind a
cell share its units by weight. So charges sum to the bill in every line and column, and to the day's cost in all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from hashlib import blake2b

from gpufleet.chargeback.days import EPOCH, HOUR, Day, micros
from gpufleet.chargeback.rates import PLATFORM, Commitment, Rates
from gpufleet.chargeback.sharing import Account
from gpufleet.chargeback.statement import Bill, BillLine, deal, deal_whole, half_up
from gpufleet.chargeback.sweep import Swept
from gpufleet.chargeback.tally import Entry, Line
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.usage import QuotaMark

NANO = 10**9


def charges(account: Account, swept: Swept, rates: Rates, exact: Bill) -> Iterator[Charge]:
    """Of a window of one day. `exact` is its bill in nano-units. In no particular order."""
    (tally,) = swept.tallies
    book = _Book(account, swept, rates, tally.day)
    held: dict[Line, list[Entry]] = defaultdict(list)
    idle: list[Entry] = []
    for entry in (tally.entries or {}).values():
        stretch = swept.stretch(entry.rank)
        if stretch is None:
            idle.append(entry)
        else:
            held[stretch.event.team, stretch.event.project].append(entry)
    yield from book.idle(idle, exact)
    for line in exact.lines:
        yield from book.use(line, held[line.team, line.project or ""])
        yield from book.borne(line)
    yield from book.unused(exact)
    yield from book.purchases()


@dataclass(frozen=True, slots=True)
class _Book:
    account: Account
    swept: Swept
    rates: Rates
    day: Day
    bears: dict[str, list[tuple[Line, int]]] = field(default_factory=lambda: defaultdict(list))
    """By commitment the lines of its owner, and what each bears of its unused part."""

    # ---------------------------------------------------------------- what was held

    def use(self, line: BillLine, entries: list[Entry]) -> Iterator[Charge]:
        """Each column of the line is dealt to the entries it comes from."""
        hours: dict[int, int] = {}
        for units, over in ((line.guaranteed, False), (line.over_quota, True)):
            mine = [e for e in entries if e.over is over]
            hours |= _by_entry(mine, deal_whole(units, [e.spans for e in mine]))
        listed = [e for e in entries if e.commitment is None]
        covered = [e for e in entries if e.commitment is not None]
        costs = _by_entry(listed, deal_whole(line.usage, [self._listed(e) for e in listed]))
        costs |= _by_entry(covered, self._commitment(line, covered))
        for entry in entries:
            yield self._held(entry, hours[id(entry)], costs[id(entry)])

    def _listed(self, entry: Entry) -> int:
        """The factor multiplies list price over quota and nothing else (rule 20)."""
        factor = self.rates.over_quota_factor
        return entry.cost * (factor.numerator if entry.over else factor.denominator)

    def _commitment(self, line: BillLine, covered: Sequence[Entry]) -> list[int]:
        """Units of the line's commitment column by entry; what stands for unused commitments is noted for `unused`."""
        causes = self._causes("commitment", line)
        weights = [*(self.swept.scale.money(e.cost) for e in covered), *(cost for _, cost in causes)]
        dealt = deal(line.commitment, weights)
        for (what, _), units in zip(causes, dealt[len(covered) :], strict=True):
            self.bears[what].append(((line.team, line.project or ""), units))
        return dealt[: len(covered)]

    def _held(self, entry: Entry, hours: int, cost: int) -> Charge:
        stretch = self.swept.stretch(entry.rank)
        assert stretch is not None, "idle is not held"
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
            day=self.day.date,
            kind=kind,
            begin=_instant(entry.begin),
            end=_instant(entry.end),
            team=PLATFORM,
            project="",
            cost_nano=cost,
            billed_nano=0 if committed else cost,
            hours_nano=hours,
            list_price_nano=_nano(entry.listed, self.swept.scale.coins, Fraction(1)),
            price_nano=_nano(entry.price, self.swept.scale.coins, factor),
            node=entry.node,
            model=up.model if up else "",
            capacity=up.capacity if up else "",
            provider=(up.provider or "") if up else "",
            region=(up.region or "") if up else "",
            commitment="" if entry.commitment is None else self.rates.commitments[entry.commitment].id,
        )

    # ---------------------------------------------------------------- what nobody held

    def idle(self, entries: list[Entry], exact: Bill) -> Iterator[Charge]:
        """Idle GPUs by node, with the platform; what lines bear of it is moved by `borne`."""
        cost = exact.idle_cost + sum(line.idle for line in exact.lines)
        hours = deal_whole(exact.idle_hours, [e.spans for e in entries])
        for entry, h, c in zip(entries, hours, deal_whole(cost, [e.cost for e in entries]), strict=True):
            found = self._priced(entry, ChargeKind.IDLE, h, c)
            yield replace(found, id=_id("idle", entry.node, *_terms(entry)))

    def borne(self, line: BillLine) -> Iterator[Charge]:
        """What the line bears that it did not use."""
        idle = self._causes("idle", line)
        for (what, _), units in zip(idle, deal(line.idle, [cost for _, cost in idle]), strict=True):
            share = self._cause(ChargeKind.IDLE_SHARE, line, what, units)
            yield replace(share, model=what)
            away = replace(
                share, id=_id("off", share.id), team=PLATFORM, project="", cost_nano=-units, billed_nano=-units
            )
            yield replace(away, model=what, note=f"borne by {line.team} {line.project}".rstrip())
        shared = self._causes("shared", line)
        for (what, _), units in zip(shared, deal(line.shared, [cost for _, cost in shared]), strict=True):
            yield replace(self._cause(ChargeKind.SHARED, line, what, units), note=what)

    def _causes(self, column: str, line: BillLine) -> list[tuple[str, Fraction]]:
        """What for, and how much of the line's column, exactly."""
        mine = (line.team, line.project or "")
        return [(what, a) for (c, what, who), a in self.account.causes.items() if c == column and who == mine]

    def _cause(self, kind: ChargeKind, line: BillLine, what: str, units: int) -> Charge:
        found = self._whole_day(kind, line.team, line.project or "", what)
        return replace(found, cost_nano=units, billed_nano=units)

    def _whole_day(self, kind: ChargeKind, team: str, project: str, what: str) -> Charge:
        return Charge(
            id=_id(kind, team, project, what),
            day=self.day.date,
            kind=kind,
            begin=_instant(self.day.begin),
            end=_instant(self.day.end),
            team=team,
            project=project,
            cost_nano=0,
        )

    # ---------------------------------------------------------------- commitments

    def unused(self, exact: Bill) -> Iterator[Charge]:
        """What commitments promised beyond what they covered, with who owns them."""
        known = sorted(self.account.unused.items())
        hours = deal(exact.unused_hours, [h for _, (h, _) in known])
        platform = [k for k, _ in known if self.rates.commitments[k].owner == PLATFORM]
        costs = dict(zip(platform, deal(exact.unused_cost, [self.account.unused[k][1] for k in platform]), strict=True))
        for (k, (whole, _)), h in zip(known, hours, strict=True):
            commitment = self.rates.commitments[k]
            if whole and commitment.owner == PLATFORM:
                yield self._unused(commitment, PLATFORM, "", h, costs[k])
            elif whole:
                yield from self._owned(commitment, h)

    def _owned(self, commitment: Commitment, hours: int) -> Iterator[Charge]:
        """By the lines of its owner; the hours by what each bears."""
        bears = self.bears[commitment.id]
        if not sum(units for _, units in bears):
            yield self._unused(commitment, commitment.owner, "", hours, 0)
            return
        parts = deal_whole(hours, [units for _, units in bears])
        for ((team, project), units), part in zip(bears, parts, strict=True):
            yield self._unused(commitment, team, project, part, units)

    def _unused(self, commitment: Commitment, team: str, project: str, hours: int, cost: int) -> Charge:
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

    def purchases(self) -> Iterator[Charge]:
        """What is to be paid for commitments on this day: the upfront on the first of the term, the rest as it runs."""
        for commitment in self.rates.commitments:
            begin, end = micros(commitment.begin), micros(commitment.end)
            team = commitment.owner
            if commitment.upfront and self.day.begin <= begin < self.day.end:
                paid = half_up(commitment.upfront * NANO)
                first = self._whole_day(ChargeKind.PURCHASE, team, "", f"{commitment.id}, upfront")
                yield replace(first, billed_nano=paid, commitment=commitment.id, note="upfront")
            span = min(end, self.day.end) - max(begin, self.day.begin)
            if span > 0 and commitment.per_gpu_hour:
                hours = Fraction(span * commitment.gpus, HOUR)
                paid = half_up(hours * commitment.per_gpu_hour * NANO)
                rent = self._whole_day(ChargeKind.PURCHASE, team, "", f"{commitment.id}, recurring")
                yield replace(rent, billed_nano=paid, commitment=commitment.id, note="recurring")


# ------------------------------------------------------------------ small parts


def _by_entry(entries: Sequence[Entry], units: Sequence[int]) -> dict[int, int]:
    return dict(zip(map(id, entries), units, strict=True))


def _terms(entry: Entry) -> tuple[object, ...]:
    return entry.up.id if entry.up else "", entry.commitment, entry.price, entry.listed, entry.begin


def _id(*parts: object) -> str:
    return blake2b("\x1f".join(map(str, parts)).encode(), digest_size=12).hexdigest()


@cache
def _nano(price: int | None, coins: int, factor: Fraction) -> int | None:
    return None if price is None else half_up(Fraction(price * NANO, coins) * factor)


def _instant(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)
