"""Plays a window from its first instant to its last: days, commitments, nodes and stretches, each where it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from gpufleet.chargeback.amounts import Change
from gpufleet.chargeback.evidence import Quarantine
from gpufleet.chargeback.holdings import Stretch
from gpufleet.chargeback.meter import Meter, Part, Seat
from gpufleet.chargeback.nodes import Life
from gpufleet.chargeback.postings import Posting, postings
from gpufleet.chargeback.pricing import Phase, phases
from gpufleet.chargeback.quotas import QuotaHolders, Quotas, Stake
from gpufleet.chargeback.rates import IdlePolicy, Rates
from gpufleet.chargeback.tally import DayTally, Scale

Turn = tuple[int, Callable[..., None], tuple[Any, ...]]
"""At this instant, this happens."""


def sweep(
    days: Sequence[DayTally],
    begin: int,
    end: int,
    changes: Sequence[Change],
    lives: Mapping[str, Life],
    rates: Rates,
    quarantine: Quarantine,
    scale: Scale | None = None,
) -> Scale:
    """Add what happens in [begin, end) to the days it lies in; answers with the grids in which they count now.

    `scale`: that of what the days hold already, fine enough for all their prices. They are counted finer where an
    amount asks for it.
    """
    posted = postings(lives, {c.stretch.event.node for c in changes}, rates, begin, end)
    terms = [phases(c) for c in rates.commitments]
    if scale is None:
        scale = scale_of(posted, rates)
    finer = scale.with_amounts([*(c.amount for c in changes), *rates.quotas.values()])
    if finer != scale:
        for day in days:
            day.refine(finer.grains // scale.grains)
    stage = _Stage(finer, posted, changes, rates, Meter(len(rates.commitments), quarantine))
    turns: list[Turn] = [(max(begin, d.day.begin), stage.meter.open_day, (d,)) for d in days]
    turns += stage.commitment_turns(rates, terms, begin, end)
    turns += stage.node_turns(posted)
    turns += [(c.at, stage.hold, (c.stretch, finer.amount(c.amount))) for c in changes]
    # a stable sort: what happens to one node at one instant stays in its order, node-down before node-up
    turns.sort(key=itemgetter(0))
    stage.play(turns, begin, end)
    return finer


def scale_of(posted: Iterable[Posting], rates: Rates) -> Scale:
    """Grids on which every price of these postings and every commitment's rate lies."""
    listed = (p.price for p in posted if p.price is not None)
    return Scale.of((), [*listed, *(phase.rate for c in rates.commitments for phase in phases(c))])


class _Stage:
    """The nodes and stretches of the window as parts that a meter books."""

    def __init__(
        self,
        scale: Scale,
        posted: Sequence[Posting],
        changes: Sequence[Change],
        rates: Rates,
        meter: Meter,
    ) -> None:
        self.meter = meter
        given = None if rates.quota is None else {team: scale.amount(q) for team, q in rates.quota.items()}
        self._quotas = Quotas(self.meter, given)
        self._holders = QuotaHolders(self.meter, self._quotas) if rates.idle is IdlePolicy.QUOTA_HOLDERS else None
        self._scale = scale
        self._seats = {p.node: Seat(p.node, announced=p.up is not None) for p in posted}
        self._stakes = self._seat_stretches(sorted(dict.fromkeys(c.stretch for c in changes), key=_cover_order))
        self._idle = self._seat_idle(2 * len(self._stakes))
        self._moved: dict[str, Seat] = {}

    def _seat_stretches(self, held: list[Stretch]) -> dict[Stretch, Stake]:
        turn = {s: i for i, s in enumerate(sorted(held, key=_quota_order))}
        stakes: dict[Stretch, Stake] = {}
        for i, stretch in enumerate(held):
            seat = self._seats[stretch.event.node]
            guaranteed = Part(2 * i, seat, stretch)
            over = Part(2 * i + 1, seat, stretch, over=True)
            stakes[stretch] = Stake(turn[stretch], guaranteed, over, stretch.is_guaranteed)
            self._quotas.add(stretch.event.team, stakes[stretch])
            self.meter.add(guaranteed)
            self.meter.add(over)
        return stakes

    def _seat_idle(self, rank: int) -> dict[str, Part]:
        """Idle comes after all use, by node (rule 21); the GPUs of a node are alike, so they are one part."""
        found = {name: Part(rank + i, self._seats[name]) for i, name in enumerate(sorted(self._seats))}
        for part in found.values():
            self.meter.add(part)
        return found

    def commitment_turns(self, rates: Rates, terms: Sequence[Sequence[Phase]], begin: int, end: int) -> Iterator[Turn]:
        for k, (commitment, term) in enumerate(zip(rates.commitments, terms, strict=True)):
            size = self._scale.amount(commitment.gpus)
            for phase in term:
                if max(phase.begin, begin) < min(phase.end, end):
                    yield max(phase.begin, begin), self.meter.set_commitment, (k, size, self._scale.price(phase.rate))
            if begin < term[-1].end < end:
                yield term[-1].end, self.meter.set_commitment, (k, 0, 0)

    def node_turns(self, posted: Sequence[Posting]) -> Iterator[Turn]:
        for posting, following in pairwise([*posted, None]):
            if posting is None:
                continue
            yield posting.begin, self._post, (posting,)
            if following is None or following.node != posting.node or following.begin > posting.end:
                yield posting.end, self._vacate, (posting.node,)

    def play(self, turns: Sequence[Turn], begin: int, end: int) -> None:
        self.meter.now = begin
        for at, happening in groupby(turns, key=itemgetter(0)):
            self._wait(at)
            for _, act, given in happening:
                act(*given)
            self._settle_idle()
        self._wait(end)
        self.meter.book_all()

    def _wait(self, at: int) -> None:
        if self._holders and self.meter.tallies:
            self._holders.book(self.meter.tallies[-1], at - self.meter.now)
        self.meter.now = at

    def _settle_idle(self) -> None:
        for seat in self._moved.values():
            self.meter.set_amount(self._idle[seat.node], seat.gpus - seat.used)
        self._moved.clear()
        if self._holders:
            self._holders.look()

    # ---------------------------------------------------------------- what can happen

    def hold(self, stretch: Stretch, amount: int) -> None:
        """A stretch is so much from now on."""
        stake, seat = self._stakes[stretch], self._seats[stretch.event.node]
        if seat.announced:  # else its idle is unknown (rule 11)
            seat.used += amount - stake.amount
            self._moved[seat.node] = seat
        self._quotas.set_amount(stretch.event.team, stake, amount)

    def _post(self, posting: Posting) -> None:
        seat, up = self._seats[posting.node], posting.up
        price = None if posting.price is None else self._scale.price(posting.price)
        self.meter.set_seat(seat, price, posting.commitments, up)
        seat.gpus = self._scale.amount(posting.gpus)
        if up:
            self._moved[seat.node] = seat

    def _vacate(self, node: str) -> None:
        seat = self._seats[node]
        seat.gpus = 0
        self._moved[node] = seat


def _cover_order(stretch: Stretch) -> tuple[Any, ...]:
    """Rule 21; the begin tells stretches of one holding apart, which never run at once."""
    e = stretch.event
    return -(e.priority or 0), e.team, e.project, e.job, e.attempt, e.node, e.gpu, stretch.slot, stretch.begin


def _quota_order(stretch: Stretch) -> tuple[Any, ...]:
    """Rule 19."""
    e = stretch.event
    return -(e.priority or 0), stretch.begin, e.job, e.attempt, e.node, e.gpu, stretch.slot
