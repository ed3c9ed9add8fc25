"""The rules of a bill again, slowly: every instant from scratch, nothing carried over. A second opinion for the sweep.

It shares the facts (events, rates, the catalogue) with the product and none of its reasoning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

from tests.properties.slow_facts import Held, Shapes, Slow, settled, shape_at

from gpufleet.chargeback.rates import Commitment, IdlePolicy, Rates, Split
from gpufleet.model.usage import NodeUp, UsageEvent

Covered = list[tuple[Fraction, Fraction]]
"""Amounts and their rates."""


def slow_bill(events: Sequence[UsageEvent], rates: Rates, start: date, end: date) -> Slow:
    out = Slow()
    held, shapes = settled(events, rates, out)
    for n in range((end - start).days):
        _Day(start + timedelta(days=n), held, shapes, rates, out).play()
    return out


@dataclass
class Use:
    h: Held
    amount: Fraction
    over: bool


def _instant(day: date, rates: Rates) -> datetime:
    return datetime.combine(day, time(), rates.timezone).astimezone(UTC)


def _borders(a: datetime, b: datetime, held: list[Held], shapes: Shapes, rates: Rates) -> list[datetime]:
    marks = {a, b} | {t for h in held for t in (h.begin, h.end)}
    marks |= {t for stays in shapes.values() for begin, end, _ in stays for t in (begin, end)}
    marks |= {t for p in rates.prices for t in (p.begin, p.end) if t}
    marks |= {t for c in rates.commitments for t in (c.begin, c.end, c.end - timedelta(hours=1))}
    return sorted(t for t in marks if a <= t <= b)


@dataclass
class Cut:
    """The uncut time between two borders: nothing changes in it."""

    at: datetime
    hours: Fraction
    uses: list[Use]
    idle: dict[str, Fraction]


class _Day:
    def __init__(self, day: date, held: list[Held], shapes: Shapes, rates: Rates, out: Slow) -> None:
        self.day, self.held, self.shapes, self.rates, self.out = day, held, shapes, rates, out
        self.hours: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self.on_model: dict[tuple[str, tuple[str, str]], Fraction] = defaultdict(Fraction)
        self.idle_cost: dict[str, Fraction] = defaultdict(Fraction)
        self.to_team: list[tuple[str, str, Fraction]] = []

    def play(self) -> None:
        a, b = _instant(self.day, self.rates), _instant(self.day + timedelta(days=1), self.rates)
        for since, until in pairwise(_borders(a, b, self.held, self.shapes, self.rates)):
            uses = list(_uses(since, self.held, self.rates))
            long = Fraction((until - since) // timedelta(microseconds=1), 3_600_000_000)
            cut = Cut(since, long, uses, dict(_idle(since, uses, self.shapes)))
            covered, unused = _covers(since, uses, cut.idle, self.shapes, self.rates)
            for i, use in enumerate(uses):
                self.use(cut, use, covered[i])
            cost = sum((self.idle(cut, node, covered[node]) for node in cut.idle), Fraction(0))
            if self.rates.idle is IdlePolicy.QUOTA_HOLDERS:
                self.holders(cut, cost)
            for commitment, amount, rate in unused:
                self.unused(commitment, amount * long, rate)
        self.share_idle()
        self.share_costs()
        for team, column, amount in self.to_team:
            self.bear(team, column, amount)

    def free(self, node: str, id: str, amount: Fraction, covered: Covered, at: datetime) -> tuple[Fraction, Fraction]:
        """Cost an hour at list price and by commitments."""
        left = amount - sum((c for c, _ in covered), Fraction(0))
        price = _price(node, shape_at(self.shapes, node, at), at, self.rates)
        self.out.aside |= {id} if left and price is None else set()
        return left * (price or 0), sum((c * r for c, r in covered), Fraction(0))

    def use(self, cut: Cut, u: Use, covered: Covered) -> None:
        e, up = u.h.e, shape_at(self.shapes, u.h.e.node, cut.at)
        listed, committed = self.free(e.node, e.id, u.amount, covered, cut.at)
        factor = self.rates.over_quota_factor if u.over else 1
        line = (e.team, e.project)
        self.out.bear(line, "over_quota" if u.over else "guaranteed", u.amount * cut.hours)
        self.out.bear(line, "usage", listed * factor * cut.hours)
        self.out.bear(line, "commitment", committed * cut.hours)
        self.hours[line] += u.amount * cut.hours
        self.on_model[up.model if up else "", line] += u.amount * cut.hours

    def idle(self, cut: Cut, node: str, covered: Covered) -> Fraction:
        up = shape_at(self.shapes, node, cut.at)
        assert up is not None
        cost = sum(self.free(node, up.id, cut.idle[node], covered, cut.at)) * cut.hours
        self.out.idle_hours += cut.idle[node] * cut.hours
        self.idle_cost[up.model] += cost
        return cost

    def holders(self, cut: Cut, cost: Fraction) -> None:
        missing: dict[str, Fraction] = {}
        for team, quota in self.rates.quotas.items():
            used = sum((u.amount for u in cut.uses if u.h.e.team == team and not u.over), Fraction(0))
            missing[team] = max(Fraction(0), quota - used)
        divisor = max(sum(cut.idle.values()), sum(missing.values()))
        self.to_team += [(t, "idle", cost * amount / divisor) for t, amount in missing.items() if amount]

    def unused(self, commitment: Commitment, hours: Fraction, rate: Fraction) -> None:
        self.out.unused_hours += hours
        if commitment.owner == "platform":
            self.out.unused_cost += hours * rate
        else:
            self.to_team.append((commitment.owner, "commitment", hours * rate))

    def share_idle(self) -> None:
        stays = sum(self.idle_cost.values(), Fraction(0))
        for model, cost in self.idle_cost.items() if self.rates.idle is IdlePolicy.PROPORTIONAL else ():
            weights = {line: w for (m, line), w in self.on_model.items() if m == model}
            for line, w in weights.items():
                self.out.bear(line, "idle", cost * w / sum(weights.values()))
            stays -= cost if weights else 0
        self.out.idle_cost += stays - sum((x for _, column, x in self.to_team if column == "idle"), Fraction(0))

    def share_costs(self) -> None:
        for s in self.rates.shared_costs:
            if s.begin <= self.day < s.end:
                amount = s.amount / (s.end - s.begin).days
                shared = self.by_hours(amount) if s.split is Split.GPU_HOURS else self.by_team(amount, s.split)
                if not shared:
                    self.out.bear(("platform", ""), "shared", amount)

    def by_hours(self, amount: Fraction) -> bool:
        for line, h in self.hours.items():
            self.out.bear(line, "shared", amount * h / sum(self.hours.values()))
        return bool(self.hours)

    def by_team(self, amount: Fraction, split: Any) -> bool:
        even = {team: Fraction(1) for team, _ in self.hours}
        weights = even if isinstance(split, Split) else {t: w for t, w in split.items() if w}
        self.to_team += [(t, "shared", amount * w / sum(weights.values())) for t, w in weights.items()]
        return bool(weights)

    def bear(self, team: str, column: str, amount: Fraction) -> None:
        mine = {line: h for line, h in self.hours.items() if line[0] == team}
        for line, h in mine.items():
            self.out.bear(line, column, amount * h / sum(mine.values()))
        if not mine:
            self.out.bear((team, ""), column, amount)


def _uses(at: datetime, held: list[Held], rates: Rates) -> Iterator[Use]:
    running = [h for h in held if h.runs(at)]
    amounts: list[tuple[Held, Fraction]] = []
    for gpu in sorted({(h.e.node, h.e.gpu) for h in running}):
        counts: list[Held] = []
        here = [h for h in running if (h.e.node, h.e.gpu) == gpu]
        for h in sorted(here, key=lambda h: (h.e.job, -h.e.attempt, h.slot)):
            mine = [c for c in counts if c.e.job == h.e.job]
            if not mine or (h.cells and all(c.cells and not c.cells & h.cells for c in mine)):
                counts.append(h)
        whole = max(Fraction(1), sum((h.part for h in counts), Fraction(0)))
        amounts += [(h, h.part / whole) for h in counts]
    left = {
        t: rates.quotas.get(t, Fraction(0))
        - sum((a for h, a in amounts if h.e.team == t and h.e.quota == "guaranteed"), Fraction(0))
        for t in {h.e.team for h, _ in amounts}
    }

    def order(pair: tuple[Held, Fraction]) -> tuple[Any, ...]:
        h = pair[0]
        return -(h.e.priority or 0), h.begin, h.e.job, h.e.attempt, h.e.node, h.e.gpu, h.slot

    for h, amount in sorted(amounts, key=order):
        if h.e.quota is None and rates.quota is not None:
            good = min(amount, max(Fraction(0), left[h.e.team]))
            left[h.e.team] -= good
        else:
            good = Fraction(0) if h.e.quota == "over-quota" else amount
        yield from (Use(h, x, over) for x, over in ((good, False), (amount - good, True)) if x)


def _idle(at: datetime, uses: list[Use], shapes: Shapes) -> Iterator[tuple[str, Fraction]]:
    for node in sorted(shapes):
        up = shape_at(shapes, node, at)
        if up is not None:
            amount = up.gpus - sum((u.amount for u in uses if u.h.e.node == node), Fraction(0))
            assert amount >= 0
            if amount:
                yield node, amount


def _matches(match: Any, node: str, up: NodeUp | None) -> bool:
    return all(v == (node if k == "node" else getattr(up, k, None)) for k, v in match.items())


def _price(node: str, up: NodeUp | None, at: datetime, rates: Rates) -> Fraction | None:
    for p in rates.prices:
        if _matches(p.match, node, up) and (not p.begin or p.begin <= at) and (not p.end or at < p.end):
            if p.per_node_hour is None:
                return p.per_gpu_hour
            return p.per_node_hour / up.gpus if up is not None and up.gpus else None
    return None


def _rate(c: Commitment, at: datetime) -> Fraction:
    n = (c.end - c.begin) // timedelta(hours=1)
    each = Fraction(floor(c.upfront * 10**9 / n), 10**9)
    is_last = at >= c.end - timedelta(hours=1)
    return ((c.upfront - each * (n - 1) if is_last else each) + c.gpus * c.per_gpu_hour) / c.gpus


def _covers(
    at: datetime, uses: list[Use], idle: dict[str, Fraction], shapes: Shapes, rates: Rates
) -> tuple[dict[Any, Covered], list[tuple[Commitment, Fraction, Fraction]]]:
    def order(i: int) -> tuple[Any, ...]:
        e = uses[i].h.e
        return (
            -(e.priority or 0), e.team, e.project, e.job, e.attempt, e.node, e.gpu, uses[i].h.slot, uses[i].over
        )  # fmt: skip

    left: dict[Any, Fraction] = {i: uses[i].amount for i in sorted(range(len(uses)), key=order)} | idle
    covered: dict[Any, Covered] = {key: [] for key in left}
    unused = []
    for c in rates.commitments:
        if not c.begin <= at < c.end:
            continue
        room, rate = Fraction(c.gpus), _rate(c, at)
        for key in left:
            node = uses[key].h.e.node if isinstance(key, int) else key
            if _matches(c.match, node, shape_at(shapes, node, at)):
                taken = min(room, left[key])
                room, left[key] = room - taken, left[key] - taken
                covered[key].append((taken, rate))
        unused.append((c, room, rate))
    return covered, unused
