"""What runs and what is idle at one instant, what covers it, and what each stretch of time adds to the day.

Commitments come first, in their order; what they leave costs the list price (rules 20 and 21).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpufleet.chargeback.cover import Cover
from gpufleet.chargeback.evidence import Quarantine
from gpufleet.chargeback.holdings import Stretch
from gpufleet.chargeback.tally import DayTally, Entries, Entry, Line
from gpufleet.model.usage import NodeUp


@dataclass(slots=True, eq=False)
class Seat:
    """A node as it is now; one that was never announced has no GPUs of its own, so no idle."""

    node: str
    announced: bool
    up: NodeUp | None = None
    price: int | None = None
    matches: tuple[int, ...] = ()
    """The commitments that may cover it, in their order."""
    gpus: int = 0
    used: int = 0
    parts: dict[Part, None] = field(default_factory=dict)
    """What of it is more than nothing now; a dict, for its order."""

    @property
    def up_id(self) -> str:
        return self.up.id if self.up else ""

    @property
    def model(self) -> str:
        return self.up.model if self.up else ""


@dataclass(slots=True, eq=False)
class Part:
    """What is priced in one way: the guaranteed or the over-quota part of a stretch, or (no `stretch`) a node's idle."""

    rank: int
    """Place in the order in which commitments cover (rule 21)."""
    seat: Seat
    stretch: Stretch | None = None
    over: bool = False
    amount: int = 0
    free: int = 0
    """What no commitment covers."""
    covered: dict[int, int] = field(default_factory=dict)
    since: int = 0

    @property
    def line(self) -> Line | None:
        return None if self.stretch is None else (self.stretch.event.team, self.stretch.event.project)

    @property
    def told_by(self) -> str:
        """The id of the event that says it is there."""
        return self.seat.up_id if self.stretch is None else self.stretch.event.id


class Meter:
    """Holds the state of now; every change first books what was true until now."""

    def __init__(self, commitments: int, quarantine: Quarantine) -> None:
        self.now = 0
        self.tallies: list[DayTally] = []
        self.touched: dict[Part, None] = {}
        """Idle parts that changed since somebody last looked."""
        self.rates = [0] * commitments
        self._covers = [Cover() for _ in range(commitments)]
        self._parts: dict[int, Part] = {}
        self._running: dict[Part, None] = {}
        self._quarantine = quarantine

    def add(self, part: Part) -> None:
        """Make a part known; nothing of it is there yet."""
        self._parts[part.rank] = part

    def open_day(self, day: DayTally) -> None:
        """What is booked from now on belongs to this day."""
        self.book_all()
        self.tallies.append(day)

    def set_amount(self, part: Part, amount: int) -> None:
        if part.amount == amount:
            return
        self._book(part)
        part.amount = amount
        for holder in (part.seat.parts, self._running):
            if amount:
                holder[part] = None
            else:
                holder.pop(part, None)
        self._offer(part, 0, amount)

    def set_seat(self, seat: Seat, price: int | None, matches: tuple[int, ...], up: NodeUp | None) -> None:
        """Another description or another price of a node, for all that is on it."""
        parts = list(seat.parts)
        for part in parts:
            self._book(part)
        if matches != seat.matches:
            for part in parts:
                self._offer(part, 0, 0)
            seat.matches = matches
            for part in parts:
                self._offer(part, 0, part.amount)
        seat.price, seat.up = price, up

    def set_commitment(self, k: int, capacity: int, rate: int) -> None:
        """From now on commitment `k` covers so much at this rate."""
        self.book_all()
        self.rates[k] = rate
        for rank in self._covers[k].resize(capacity):
            self._shift(k, rank)

    def book_all(self) -> None:
        for part in self._running:
            self._book(part)

    def _offer(self, part: Part, step: int, amount: int) -> None:
        """Let each commitment from here on cover what the ones before it left."""
        for k in part.seat.matches[step:]:
            cover = self._covers[k]
            for rank in cover.put(part.rank, amount):
                if rank != part.rank:
                    self._shift(k, rank)
            covered = cover.covered(part.rank)
            _note(part, k, covered)
            amount -= covered
        part.free = amount

    def _shift(self, k: int, rank: int) -> None:
        """A commitment covers this part more or less than before: offer the rest to those after it."""
        part, cover = self._parts[rank], self._covers[k]
        self._book(part)
        covered = cover.covered(rank)
        _note(part, k, covered)
        self._offer(part, part.seat.matches.index(k) + 1, cover.amount(rank) - covered)

    def _book(self, part: Part) -> None:
        span, part.since = self.now - part.since, self.now
        if part.stretch is None:
            self.touched[part] = None
        if span and part.amount:
            self._add(part, span)

    def _add(self, part: Part, span: int) -> None:
        day, seat = self.tallies[-1], part.seat
        committed = listed = 0
        for k, covered in part.covered.items():
            cost = covered * span * self.rates[k]
            committed += cost
            day.covered[k] += covered * span
            day.covered_cost[k] += cost
            if day.entries is not None:
                self._enter(day.entries, part, k, self.rates[k], covered, span)
        if part.free and day.entries is not None:
            self._enter(day.entries, part, None, seat.price, part.free, span)
        if part.free and seat.price is not None:
            listed = part.free * span * seat.price
        elif part.free:
            self._quarantine.add(part.told_by, f"no price fits {seat.node} ({seat.model or 'never announced'})")
        line_of = part.line
        if line_of is None:
            day.idle += part.amount * span
            day.idle_cost[seat.model] += listed + committed
            return
        line = day.lines[line_of]
        line.spans[part.over] += part.amount * span
        line.usage[part.over] += listed
        line.commitment += committed
        line.by_model[seat.model] += part.amount * span

    def _enter(self, entries: Entries, part: Part, k: int | None, price: int | None, amount: int, span: int) -> None:
        """Write it down by itself: so much of the part, at this price, for the time until now."""
        seat = part.seat
        key = (part.stretch or seat.node, part.over, seat.up_id, k, price, seat.price)
        entry = entries.get(key)
        if entry is None:
            begin = self.now - span
            entry = entries[key] = Entry(
                part.stretch, part.over, seat.node, seat.up, k, price, seat.price, begin, begin
            )
        entry.end = self.now
        entry.spans += amount * span
        entry.cost += amount * span * (price or 0)


def _note(part: Part, k: int, covered: int) -> None:
    if covered:
        part.covered[k] = covered
    else:
        part.covered.pop(k, None)
