"""A day's bill with its charges, made slice by slice: a million segments need no more memory than those of an hour.

Rule 3 makes days independent; inside a day only what runs at once depends on each other. So the day is swept in slices of
time, what runs on is carried into the next, and all that is added up is exact. The slices show in no number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import Final

from gpufleet.chargeback.amounts import changes
from gpufleet.chargeback.buckets import Buckets
from gpufleet.chargeback.charges import Book
from gpufleet.chargeback.days import Day, days
from gpufleet.chargeback.evidence import Quarantine
from gpufleet.chargeback.facts import Facts, Nodes, PastNodes, none_left_out, settle_facts
from gpufleet.chargeback.holdings import Stretch
from gpufleet.chargeback.postings import postings
from gpufleet.chargeback.pricing import Phase, phases
from gpufleet.chargeback.rates import Rates
from gpufleet.chargeback.sharing import Account, add_day
from gpufleet.chargeback.statement import Bill, state
from gpufleet.chargeback.sweep import scale_of, sweep
from gpufleet.chargeback.tally import DayTally, Scale
from gpufleet.model.charge import Charge

MOMENT: Final = 5 * 60 * 1_000_000
"""Microseconds: stretches are laid aside by the moment they begin in."""
ENOUGH: Final = 10_000
"""Stretches that begin in one slice, where there is more than one moment in it."""


@dataclass(frozen=True, slots=True)
class Nights:
    """The settled facts of some days. A night can be made in any order, and again."""

    rates: Rates
    window: tuple[Day, ...]
    facts: Facts
    quarantine: Quarantine
    _buckets: Buckets
    _enough: int = ENOUGH

    def account(self) -> tuple[Account, Quarantine]:
        """What all the days cost, exact, before any rounding; and what was set aside or has no price."""
        account, aside = Account(), self.quarantine.copy()
        for day in self.window:
            tally = DayTally(day)
            add_day(account, tally, self._sweep(tally, aside), self.rates, self._terms())
        return account, aside

    def itemised(self, day: date, laid_aside: Buckets) -> tuple[Bill, Iterator[Charge]]:
        """The bill of one of the days, and the charges it is made of; `laid_aside` is empty and for this day alone."""
        tally = DayTally(next(d for d in self.window if d.date == day), entries={})
        account, aside, book = Account(), self.quarantine.copy(), Book(tally, self.rates, laid_aside)
        scale = self._sweep(tally, aside, book)
        add_day(account, tally, scale, self.rates, self._terms())
        until, told = day + timedelta(days=1), aside.sorted()
        exact = state(account, self.rates, day, until, exact=True, quarantined=told)
        found = state(account, self.rates, day, until, exact=False, quarantined=told)
        return found, book.charges(account, scale, exact)

    def _terms(self) -> list[tuple[Phase, ...]]:
        return [phases(c) for c in self.rates.commitments]

    def _sweep(self, tally: DayTally, aside: Quarantine, book: Book | None = None) -> Scale:
        """Fill the day's sums, and the book with what ended; answers with the grids they count in."""
        day, lives = tally.day, self.facts.lives
        scale = scale_of(postings(lives, lives, self.rates, day.begin, day.end), self.rates)
        running: list[Stretch] = []
        for begin, end, started in self._slices(day):
            running += started
            changed = list(changes(running, begin, end))
            scale = sweep([tally], begin, end, changed, lives, self.rates, aside, scale)
            running = [s for s in running if s.end > end]
            if book is not None:
                book.write(scale, end)
        return scale

    def _slices(self, night: Day) -> Iterator[tuple[int, int, list[Stretch]]]:
        """[begin, end) and what begins there (or ran before the day began), one after the other over the whole day."""
        begin = night.begin
        started: list[Stretch] = []
        for moment in range(night.begin, night.end, MOMENT):
            if started and len(started) + self._buckets.count((night.date, moment)) > self._enough:
                yield begin, moment, started
                begin, started = moment, []
            started.extend(self._buckets.take((night.date, moment)))
        yield begin, night.end, started


def nights(
    nodes: Nodes,
    rates: Rates,
    wanted: Iterable[date],
    buckets: Buckets,
    quarantine: Quarantine | None = None,
    enough: int = ENOUGH,
    past: PastNodes = none_left_out,
) -> Nights:
    """These days, read in one go. `past`: nodes left out of `nodes` that were gone before the first of the days."""
    quarantine = quarantine or Quarantine()
    window = tuple(day for d in sorted(wanted) for day in days(d, d + timedelta(days=1), rates.timezone))
    facts = settle_facts(nodes, rates.mig_share, quarantine, _laying_aside(window, buckets), past)
    return Nights(rates, window, facts, quarantine, buckets, enough)


def _laying_aside(window: Sequence[Day], buckets: Buckets) -> Callable[[Stretch], None]:
    ends = [day.end for day in window]

    def keep(stretch: Stretch) -> None:
        for day in islice(window, bisect_right(ends, stretch.begin), None):
            if day.begin >= stretch.end:
                return
            since = max(stretch.begin, day.begin)
            if since < min(stretch.end, day.end):
                buckets.put((day.date, since - (since - day.begin) % MOMENT), stretch)

    return keep
