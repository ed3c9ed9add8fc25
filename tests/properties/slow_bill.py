"""The rules of a bill again, slowly: every instant from scratch, nothing carried over. A second opinion for the sweep.

It shares the facts (events, rates, the catalogue, days) with the product and none of its reasoning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from math import floor
from typing import Any

from gpufleet.chargeback.rates import Commitment, IdlePolicy, MigShare, Rates, Split
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


def slow_bill(events: Sequence[UsageEvent], rates: Rates, start: date, end: date) -> Slow:
    out = Slow()
    told = _rule_5(events, out)
    shapes, downs = _rule_10(told, out)
    held = _rules_7_to_9(told, shapes, downs, out)
    held = [h for h in held if _rules_11_and_12(h, shapes, rates, out)]
    held = _rules_13_to_15(held, told, out)
    for n in range((end - start).days):
        _day(start + timedelta(days=n), held, shapes, rates, out)
    return out


def _rule_5(events: Iterable[UsageEvent], out: Slow) -> list[UsageEvent]:
    by_id: dict[str, list[UsageEvent]] = defaultdict(list)
    for e in events:
        by_id[e.id].append(e)
    out.aside |= {i for i, es in by_id.items() if any(e != es[0] for e in es)}
    return [es[0] for i, es in by_id.items() if i not in out.aside]


Shapes = dict[str, list[tuple[datetime, datetime, NodeUp]]]


def _rule_10(told: list[UsageEvent], out: Slow) -> tuple[Shapes, dict[str, list[datetime]]]:
    shapes: Shapes = {}
    downs: dict[str, list[datetime]] = {}
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


def _shape(shapes: Shapes, node: str, at: datetime) -> NodeUp | None:
    return next((up for begin, end, up in shapes[node] if begin <= at < end), None)


def _gone(h: Held, shapes: Shapes, downs: dict[str, list[datetime]]) -> tuple[datetime, bool]:
    down = min((d for d in downs[h.e.node] if d > h.begin), default=NEVER)
    small = min((b for b, _, up in shapes[h.e.node] if b > h.begin and h.e.gpu >= up.gpus), default=NEVER)
    return min(down, small), down <= small


def _rules_7_to_9(told: list[UsageEvent], shapes: Shapes, downs: dict[str, list[datetime]], out: Slow) -> list[Held]:
    done: list[Held] = []
    open_: dict[tuple[Any, ...], Held] = {}

    def place(e: Allocated | Released) -> tuple[Any, ...]:
        return e.job, e.attempt, e.node, e.gpu

    def finish(key: tuple[Any, ...], at: datetime) -> None:
        h = open_.pop(key)
        gone, by_node = _gone(h, shapes, downs)
        h.end, h.firm = min(at, gone), at < NEVER and not (by_node and gone < at)
        done.append(h)

    for at in sorted({e.at for e in told}):
        new: dict[tuple[Any, ...], Allocated] = {}
        for e in sorted((e for e in told if e.at == at), key=lambda e: e.id):
            if isinstance(e, Allocated):
                new[*place(e), -1 if e.start is None else e.start] = e
        ending, unborn = set(), set()
        for e in (e for e in told if e.at == at):
            if not isinstance(e, Released):
                continue
            old = {k for k in open_ if k[:4] == place(e) and e.start in (None, k[4])}
            fresh = {k for k in new if k[:4] == place(e) and e.start in (None, k[4])}
            ending |= old
            unborn |= fresh if not old else set()
            out.aside |= {e.id} if not old and not fresh else set()
        for key in ending:
            finish(key, at)
        for key, a in new.items():
            if key in unborn:
                continue
            if key in open_:
                b = open_[key].e
                alike = all(
                    getattr(a, n) == getattr(b, n)
                    for n in ("team", "project", "quota", "priority", "profile", "fraction")
                )
                if alike and _gone(open_[key], shapes, downs)[0] > at:
                    continue
                finish(key, at)
            open_[key] = Held(a, at)
    for key in list(open_):
        finish(key, NEVER)
    places = {place(e) for e in told if isinstance(e, Allocated)}
    for e in told:
        if isinstance(e, Heartbeat) and e.holding is not None:
            job, attempt, gpu = e.holding
            if (job, attempt, e.node, gpu) not in places:
                out.aside.add(e.id)
    return done


def _rules_11_and_12(h: Held, shapes: Shapes, rates: Rates, out: Slow) -> bool:
    up = _shape(shapes, h.e.node, h.begin)
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


def _rules_13_to_15(held: list[Held], told: list[UsageEvent], out: Slow) -> list[Held]:
    def proof(h: Held, at: datetime) -> datetime:
        beats = [e for e in told if isinstance(e, Heartbeat) and e.node == h.e.node and e.at <= at]
        mine = [b.at for b in beats if b.holding in (None, (h.e.job, h.e.attempt, h.e.gpu))]
        return max([h.begin, *mine])

    accepted: list[Held] = []
    for new in sorted(held, key=lambda h: (h.begin, h.e.id)):
        others = [
            h for h in accepted
            if h.runs(new.begin) and (h.e.node, h.e.gpu) == (new.e.node, new.e.gpu) and h.e.job != new.e.job
        ]  # fmt: skip
        firm = [h for h in others if h.firm]

        def crowded(among: list[Held], new: Held = new) -> bool:
            shares = [h.part for h in among if h.e.fraction is not None]
            return new.e.fraction is not None and new.part + sum(shares) > 1

        if crowded(firm) or not all(_pair_fits(new, h) for h in firm):
            out.aside.add(new.e.id)
            continue
        full = crowded(others)
        for h in others:
            if not h.firm and (full or not _pair_fits(new, h)):
                h.end = proof(h, new.begin)
        for h in accepted:
            if not h.firm and h.e.job == new.e.job and h.e.attempt < new.e.attempt and h.runs(new.begin):
                h.end = proof(h, new.begin)
        accepted.append(new)
    return accepted


# ---------------------------------------------------------------- one day


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


def _day(day: date, held: list[Held], shapes: Shapes, rates: Rates, out: Slow) -> None:
    a, b = _instant(day, rates), _instant(day + timedelta(days=1), rates)
    hours: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    on_model: dict[tuple[str, tuple[str, str]], Fraction] = defaultdict(Fraction)
    idle_cost: dict[str, Fraction] = defaultdict(Fraction)
    to_team: list[tuple[str, str, Fraction]] = []
    borders = _borders(a, b, held, shapes, rates)
    for since, until in zip(borders, borders[1:], strict=False):
        long = Fraction((until - since) // timedelta(microseconds=1), 3_600_000_000)
        uses = list(_uses(since, held, rates))
        idle = dict(_idle(since, uses, shapes))
        covered, unused = _covers(since, uses, idle, shapes, rates)
        for i, u in enumerate(uses):
            line, up = (u.h.e.team, u.h.e.project), _shape(shapes, u.h.e.node, since)
            free = u.amount - sum((c for c, _ in covered[i]), Fraction(0))
            price = _price(u.h.e.node, up, since, rates)
            out.aside |= {u.h.e.id} if free and price is None else set()
            factor = rates.over_quota_factor if u.over else 1
            out.bear(line, "over_quota" if u.over else "guaranteed", u.amount * long)
            out.bear(line, "usage", free * (price or 0) * factor * long)
            out.bear(line, "commitment", sum((c * r for c, r in covered[i]), Fraction(0)) * long)
            hours[line] += u.amount * long
            on_model[up.model if up else "", line] += u.amount * long
        cost_now = Fraction(0)
        for node, amount in idle.items():
            up = _shape(shapes, node, since)
            assert up is not None
            free = amount - sum((c for c, _ in covered[node]), Fraction(0))
            price = _price(node, up, since, rates)
            out.aside |= {up.id} if free and price is None else set()
            cost = (free * (price or 0) + sum((c * r for c, r in covered[node]), Fraction(0))) * long
            out.idle_hours += amount * long
            idle_cost[up.model] += cost
            cost_now += cost
        if rates.idle is IdlePolicy.QUOTA_HOLDERS:
            missing = {
                t: max(Fraction(0), q - sum((u.amount for u in uses if u.h.e.team == t and not u.over), Fraction(0)))
                for t, q in rates.quotas.items()
            }
            divisor = max(sum(idle.values()), sum(missing.values()))
            for team, amount in missing.items():
                if amount and divisor:
                    to_team.append((team, "idle", cost_now * amount / divisor))
        for commitment, amount, rate in unused:
            out.unused_hours += amount * long
            if commitment.owner == "platform":
                out.unused_cost += amount * rate * long
            else:
                to_team.append((commitment.owner, "commitment", amount * rate * long))
    _share(day, hours, on_model, idle_cost, to_team, rates, out)


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
        up = _shape(shapes, node, at)
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
) -> tuple[dict[Any, list[tuple[Fraction, Fraction]]], list[tuple[Commitment, Fraction, Fraction]]]:
    def order(i: int) -> tuple[Any, ...]:
        e = uses[i].h.e
        return (
            -(e.priority or 0), e.team, e.project, e.job, e.attempt, e.node, e.gpu, uses[i].h.slot, uses[i].over
        )  # fmt: skip

    left: dict[Any, Fraction] = {i: uses[i].amount for i in sorted(range(len(uses)), key=order)} | idle
    covered: dict[Any, list[tuple[Fraction, Fraction]]] = {key: [] for key in left}
    unused = []
    for c in rates.commitments:
        if not c.begin <= at < c.end:
            continue
        room, rate = Fraction(c.gpus), _rate(c, at)
        for key in left:
            node = uses[key].h.e.node if isinstance(key, int) else key
            if _matches(c.match, node, _shape(shapes, node, at)):
                taken = min(room, left[key])
                room, left[key] = room - taken, left[key] - taken
                covered[key].append((taken, rate))
        unused.append((c, room, rate))
    return covered, unused


def _share(
    day: date,
    hours: dict[tuple[str, str], Fraction],
    on_model: dict[tuple[str, tuple[str, str]], Fraction],
    idle_cost: dict[str, Fraction],
    to_team: list[tuple[str, str, Fraction]],
    rates: Rates,
    out: Slow,
) -> None:
    stays = sum(idle_cost.values(), Fraction(0))
    if rates.idle is IdlePolicy.PROPORTIONAL:
        for model, cost in idle_cost.items():
            weights = {line: w for (m, line), w in on_model.items() if m == model}
            for line, w in weights.items():
                out.bear(line, "idle", cost * w / sum(weights.values()))
            stays -= cost if weights else 0
    stays -= sum((x for _, column, x in to_team if column == "idle"), Fraction(0))
    out.idle_cost += stays
    for s in rates.shared_costs:
        if not s.begin <= day < s.end:
            continue
        amount = s.amount / (s.end - s.begin).days
        if s.split is Split.GPU_HOURS:
            shares = {line: h for line, h in hours.items() if h}
            for line, w in shares.items():
                out.bear(line, "shared", amount * w / sum(shares.values()))
        else:
            even = {t: Fraction(1) for t in {t for (t, _), h in hours.items() if h}}
            of_team = even if isinstance(s.split, Split) else {t: w for t, w in s.split.items() if w}
            shares = {(t, "*"): w for t, w in of_team.items()}
            to_team += [(t, "shared", amount * w / sum(of_team.values())) for t, w in of_team.items()]
        if not shares:
            out.bear(("platform", ""), "shared", amount)
    for team, column, amount in to_team:
        mine = {line: h for line, h in hours.items() if line[0] == team and h}
        for line, w in mine.items():
            out.bear(line, column, amount * w / sum(mine.values()))
        if not mine:
            out.bear((team, ""), column, amount)
