"""The facts of a bill, settled slowly (rules 4 to 16): who held what, and which nodes were up. See slow_bill.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

from gpufleet.chargeback.rates import MigShare, Rates
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, Released, UsageEvent

NEVER = datetime.max.replace(tzinfo=UTC)
COLUMNS = ("guaranteed", "over_quota", "usage", "idle", "commitment", "shared")


@dataclass(eq=False)
class Held:
    e: Allocated
    begin: datetime
    end: datetime = NEVER
    firm: bool = False
    part: Fraction = Fraction(1)
    cells: frozenset[int] = frozenset()

    @property
    def slot(self) -> int:
        return -1 if self.e.start is None else self.e.start

    def runs(self, at: datetime) -> bool:
        return self.begin <= at < self.end


@dataclass
class Slow:
    """What came out: exact lines by column, what stays, and the ids set aside."""

    lines: dict[tuple[str, str], dict[str, Fraction]] = field(default_factory=dict)
    idle_hours: Fraction = Fraction(0)
    idle_cost: Fraction = Fraction(0)
    unused_hours: Fraction = Fraction(0)
    unused_cost: Fraction = Fraction(0)
    aside: set[str] = field(default_factory=set)

    def bear(self, line: tuple[str, str], column: str, amount: Fraction) -> None:
        cells = self.lines.setdefault(line, dict.fromkeys(COLUMNS, Fraction(0)))
        cells[column] += amount

    def printed(self) -> dict[tuple[str, str], dict[str, Fraction]]:
        return {line: cells for line, cells in self.lines.items() if any(cells.values())}


Shapes = dict[str, list[tuple[datetime, datetime, NodeUp]]]
Downs = dict[str, list[datetime]]


def settled(events: Sequence[UsageEvent], rates: Rates, out: Slow) -> tuple[list[Held], Shapes]:
    told = _rule_5(events, out)
    shapes, downs = _rule_10(told, out)
    held = _Play(told, shapes, downs, out).all()
    _rule_9(told, out)
    held = [h for h in held if _rules_11_and_12(h, shapes, rates, out)]
    return _rules_13_to_15(held, told, out), shapes


def _rule_5(events: Iterable[UsageEvent], out: Slow) -> list[UsageEvent]:
    by_id: dict[str, list[UsageEvent]] = defaultdict(list)
    for e in events:
        by_id[e.id].append(e)
    out.aside |= {i for i, es in by_id.items() if any(e != es[0] for e in es)}
    return [es[0] for i, es in by_id.items() if i not in out.aside]


def _rule_10(told: list[UsageEvent], out: Slow) -> tuple[Shapes, Downs]:
    shapes: Shapes = {}
    downs: Downs = {}
    for node in {e.node for e in told}:
        ups = [e for e in told if isinstance(e, NodeUp) and e.node == node]
        down = [e for e in told if isinstance(e, NodeDown) and e.node == node]
        shapes[node], downs[node] = [], sorted({e.at for e in down})
        if not ups:
            continue
        borders = sorted({e.at for e in [*ups, *down]})
        for at, then in zip(borders, [*borders[1:], NEVER], strict=True):
            now = [u for u in ups if u.at == at]
            before = next((s for s in shapes[node] if s[1] == at), None)
            ended = any(d.at == at for d in down)
            if ended and before is None:
                out.aside |= {d.id for d in down if d.at == at}
                downs[node].remove(at)
            if now:
                shapes[node].append((at, then, max(now, key=lambda u: u.id)))
            elif before is not None and not ended:
                shapes[node].append((at, then, before[2]))
    return shapes, downs


def shape_at(shapes: Shapes, node: str, at: datetime) -> NodeUp | None:
    return next((up for begin, end, up in shapes[node] if begin <= at < end), None)


def _gone(h: Held, shapes: Shapes, downs: Downs) -> tuple[datetime, bool]:
    down = min((d for d in downs[h.e.node] if d > h.begin), default=NEVER)
    small = min((b for b, _, up in shapes[h.e.node] if b > h.begin and h.e.gpu >= up.gpus), default=NEVER)
    return min(down, small), down <= small


Key = tuple[str, int, str, int, int]
"""Job, attempt, node, GPU, start of the slice."""


def _place(e: Allocated | Released) -> tuple[str, int, str, int]:
    return e.job, e.attempt, e.node, e.gpu


def _same_terms(a: Allocated, b: Allocated) -> bool:
    names = ("team", "project", "quota", "priority", "profile", "fraction")
    return all(getattr(a, n) == getattr(b, n) for n in names)


class _Play:
    """Rules 7 and 8, one instant after the other."""

    def __init__(self, told: list[UsageEvent], shapes: Shapes, downs: Downs, out: Slow) -> None:
        self.told, self.shapes, self.downs, self.out = told, shapes, downs, out
        self.open: dict[Key, Held] = {}
        self.done: list[Held] = []

    def all(self) -> list[Held]:
        for at in sorted({e.at for e in self.told}):
            self.instant(at, sorted((e for e in self.told if e.at == at), key=lambda e: e.id))
        for key in list(self.open):
            self.finish(key, NEVER)
        return self.done

    def finish(self, key: Key, at: datetime) -> None:
        h = self.open.pop(key)
        gone, by_node = _gone(h, self.shapes, self.downs)
        h.end, h.firm = min(at, gone), at < NEVER and not (by_node and gone < at)
        self.done.append(h)

    def instant(self, at: datetime, now: list[UsageEvent]) -> None:
        new: dict[Key, Allocated] = {}
        for e in now:
            if isinstance(e, Allocated):
                new[*_place(e), -1 if e.start is None else e.start] = e
        ending, unborn = set[Key](), set[Key]()
        for e in now:
            if isinstance(e, Released):
                old = {k for k in self.open if k[:4] == _place(e) and e.start in (None, k[4])}
                fresh = {k for k in new if k[:4] == _place(e) and e.start in (None, k[4])}
                ending |= old
                unborn |= fresh if not old else set()
                self.out.aside |= {e.id} if not old and not fresh else set()
        for key in ending:
            self.finish(key, at)
        for key in new.keys() - unborn:
            self.allocate(key, new[key], at)

    def allocate(self, key: Key, a: Allocated, at: datetime) -> None:
        if key in self.open:
            h = self.open[key]
            if _same_terms(a, h.e) and _gone(h, self.shapes, self.downs)[0] > at:
                return
            self.finish(key, at)
        self.open[key] = Held(a, at)


def _rule_9(told: list[UsageEvent], out: Slow) -> None:
    places = {_place(e) for e in told if isinstance(e, Allocated)}
    for e in told:
        if isinstance(e, Heartbeat) and e.holding is not None:
            job, attempt, gpu = e.holding
            if (job, attempt, e.node, gpu) not in places:
                out.aside.add(e.id)


def _rules_11_and_12(h: Held, shapes: Shapes, rates: Rates, out: Slow) -> bool:
    up = shape_at(shapes, h.e.node, h.begin)
    fine = (not shapes[h.e.node] and h.e.profile is None) or (up is not None and h.e.gpu < up.gpus)
    h.part = h.e.fraction if h.e.fraction is not None else Fraction(1)
    if fine and h.e.profile is not None and up is not None:
        model = gpu_model(up.model)
        profile = model.profile(h.e.profile)
        fine = profile is not None and h.slot in profile.starts
        if fine and profile is not None:
            h.cells = frozenset(range(h.slot, h.slot + profile.size))
            compute = Fraction(profile.compute, model.compute_slices)
            memory = Fraction(profile.size, model.memory_slices)
            h.part = {
                MigShare.COMPUTE: compute, MigShare.MEMORY: memory, MigShare.DOMINANT: max(compute, memory)
            }[rates.mig_share]  # fmt: skip
    if not fine:
        out.aside.add(h.e.id)
    return fine


def _pair_fits(a: Held, b: Held) -> bool:
    if a.cells and b.cells:
        return not a.cells & b.cells
    return a.e.fraction is not None and b.e.fraction is not None


def _proof(h: Held, at: datetime, told: list[UsageEvent]) -> datetime:
    beats = [e for e in told if isinstance(e, Heartbeat) and e.node == h.e.node and e.at <= at]
    return max([h.begin, *(b.at for b in beats if b.holding in (None, (h.e.job, h.e.attempt, h.e.gpu)))])


def _crowded(new: Held, among: list[Held]) -> bool:
    shares = [h.part for h in among if h.e.fraction is not None]
    return new.e.fraction is not None and new.part + sum(shares) > 1


def _rules_13_to_15(held: list[Held], told: list[UsageEvent], out: Slow) -> list[Held]:
    accepted: list[Held] = []
    for new in sorted(held, key=lambda h: (h.begin, h.e.id)):
        running = [h for h in accepted if h.runs(new.begin)]
        here = [h for h in running if (h.e.node, h.e.gpu) == (new.e.node, new.e.gpu) and h.e.job != new.e.job]
        firm = [h for h in here if h.firm]
        if _crowded(new, firm) or not all(_pair_fits(new, h) for h in firm):
            out.aside.add(new.e.id)
            continue
        gone = [h for h in here if _crowded(new, here) or not _pair_fits(new, h)]
        gone += [h for h in running if h.e.job == new.e.job and h.e.attempt < new.e.attempt]
        for h in gone:
            h.end = h.end if h.firm else _proof(h, new.begin, told)
        accepted.append(new)
    return accepted
