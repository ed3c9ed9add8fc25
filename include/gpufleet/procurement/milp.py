"""The portfolio as a mixed-integer linear program, solved by HiGHS (scipy.optimize.milp).

Hours in which every class wants the same are one column, weighed by how many they are: a week has a few dozen of them.

Variables: new instances of each committed offer; gangs of each class on each suitable offer in each kind of hour;
instances of each on-demand and spot offer in each; gangs that go short. Least cost decides; a shortage costs more than
any price, of services most. Equal costs are told apart by the order of names, so the same question has one answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.procurement.demand import HOURS, Class, Promise, Wanted
from gpufleet.procurement.portfolio import (
    Offer,
    Portfolio,
    PortfolioPolicy,
    Short,
    Used,
    on_demand_only,
    on_demand_price,
    space,
    suits,
)
from gpufleet.procurement.program import Key, Program, optimum

SHORT: Final = {Promise.SERVICE: 1000.0, Promise.FIRM: 30.0, Promise.INTERRUPTIBLE: 10.0}
"""What a GPU-hour that goes short costs, in multiples of the highest price."""
CROWDED: Final = 2.0
"""The same for a GPU-hour above a spot pool's part: on-demand capacity is taken before, going short is worse."""
TIE: Final = 1e-6
"""Of the highest price: the later of equally good offers, by name, seems so much dearer."""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything the program is written from, in the order of names."""

    wanted: tuple[Wanted, ...]
    offers: tuple[Offer, ...]
    policy: PortfolioPolicy
    hours: tuple[tuple[int, int], ...]
    """(an hour of each kind, how many there are of it)."""

    @property
    def highest(self) -> float:
        return max((float(o.effective_price) for o in self.offers), default=0.0) or 1.0

    def price(self, offer: Offer) -> float:
        return float(offer.effective_price) + TIE * self.highest * self.offers.index(offer)


def solve(wanted: Sequence[Wanted], offers: Sequence[Offer], policy: PortfolioPolicy) -> Portfolio:
    """The portfolio for a week of this demand. Raises nothing: what cannot be served is told as short."""
    rows = tuple(sorted(wanted, key=lambda w: w.of))
    question = Question(rows, tuple(sorted(offers, key=lambda o: o.name)), policy, _kinds(rows))
    program = _program(question)
    values, gap = optimum(program, policy.seconds, policy.gap)
    if values is None:  # the time was too short for any answer: nothing is bought, all of it is told as short
        values = {key: int(program.uppers[key]) for key in program.costs if key[0] == "short"}
    return _portfolio(question, values, gap)


def _kinds(wanted: Sequence[Wanted]) -> tuple[tuple[int, int], ...]:
    """Hours that differ, each with the number of hours like it."""
    kinds: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for hour in range(HOURS):
        kinds[tuple(w.gangs[hour] for w in wanted)].append(hour)
    return tuple((hours[0], len(hours)) for hours in kinds.values())


# ------------------------------------------------------------------ writing it down


def _program(q: Question) -> Program:
    program = Program()
    for offer in q.offers:
        if offer.is_committed:
            new = float("inf") if offer.most is None else max(0, offer.most - offer.existing)
            program.add(("new", offer.name), q.price(offer) * offer.gpus * HOURS, new)
    for hour, weight in q.hours:
        _hour(program, q, hour, weight)
    _cover(program, q)
    _regret(program, q)
    return program


def _hour(program: Program, q: Question, hour: int, weight: int) -> None:
    for w in q.wanted:
        row: dict[Key, float] = {}
        if w.gangs[hour]:
            for offer in q.offers:
                if suits(offer, w.of):
                    row[program.add(("on", offer.name, w.of, hour), upper=w.gangs[hour])] = 1
            penalty = SHORT[w.of.promise] * q.highest * w.of.gang * weight
            row[program.add(("short", w.of, hour), penalty, w.gangs[hour])] = 1
            program.bound(row, w.gangs[hour], w.gangs[hour])
    for offer in q.offers:
        _room(program, q, offer, hour, weight)
    _spread(program, q, hour, weight)
    if q.policy.max_hourly is not None:
        some: dict[Key, float] = {("some", o.name, hour): float(o.price) * o.gpus for o in q.offers}
        paid = {key: price for key, price in some.items() if key in program.costs}
        program.bound(paid, 0, float(q.policy.max_hourly))


def _on(program: Program, q: Question, offer: Offer, hour: int) -> dict[Key, float]:
    """GPUs that gangs take on an offer."""
    taken: dict[Key, float] = {("on", offer.name, w.of, hour): float(space(offer, w.of)) for w in q.wanted}
    return {key: gpus for key, gpus in taken.items() if key in program.costs}


def _room(program: Program, q: Question, offer: Offer, hour: int, weight: int) -> None:
    """No more on an offer than the instances that are there, or are paid for this hour."""
    row = _on(program, q, offer, hour)
    if not row:
        return
    if offer.is_committed:
        row["new", offer.name] = -float(offer.gpus)
        program.bound(row, -float("inf"), offer.existing * offer.gpus)
        return
    most = float("inf") if offer.most is None else float(offer.most)
    some = program.add(("some", offer.name, hour), q.price(offer) * offer.gpus * weight, most)
    row[some] = -float(offer.gpus)
    program.bound(row, -float("inf"), 0)


def _spread(program: Program, q: Question, hour: int, weight: int) -> None:
    """Not too much of an hour's interruptible work in one spot pool, nor on spot altogether."""
    work = [w for w in q.wanted if w.of.promise is Promise.INTERRUPTIBLE and w.gangs[hour]]
    pools = [o for o in q.offers if o.capacity is CapacityType.SPOT]
    if not work or not pools:
        return
    gpus = sum(w.of.gang * w.gangs[hour] for w in work)
    most = max(float(q.policy.spot_pool_share) * gpus, max(w.of.gang for w in work))
    for pool in pools:
        row = _on(program, q, pool, hour)
        row[program.add(("crowd", pool.name, hour), CROWDED * q.highest * weight, whole=False)] = -1.0
        program.bound(row, -float("inf"), most)
    together = {key: value for pool in pools for key, value in _on(program, q, pool, hour).items()}
    program.bound(together, 0, float(q.policy.spot_share) * gpus)


def _models(q: Question) -> list[str]:
    return sorted({o.model for o in q.offers if o.is_committed})


def _gpus(q: Question, model: str, hour: int, *, services: bool) -> Fraction:
    """GPUs that work takes of committed instances of a model, where it fits them worst."""
    offers = [o for o in q.offers if o.is_committed and o.model == model]
    work = (w for w in q.wanted if w.of.model in (model, ANY_MODEL) and (w.of.promise is Promise.SERVICE) == services)
    return sum((w.gangs[hour] * max(space(o, w.of) for o in offers) for w in work), Fraction(0))


def _peak(q: Question, model: str) -> int:
    """GPUs that services need at their busiest, in whole instances, should every offer have a part-filled one."""
    sizes = [o.gpus for o in q.offers if o.is_committed and o.model == model]
    peak = max((_gpus(q, model, hour, services=True) for hour, _ in q.hours), default=Fraction(0))
    return (ceil(peak / max(sizes)) + len(sizes) - 1) * max(sizes) if peak else 0


def _committed(q: Question, model: str) -> tuple[dict[Key, float], int]:
    """GPUs of new commitments, and of those that are there."""
    offers = [o for o in q.offers if o.is_committed and o.model == model]
    return {("new", o.name): float(o.gpus) for o in offers}, sum(o.existing * o.gpus for o in offers)


def _cover(program: Program, q: Question) -> None:
    """Commitments beyond what services need stay within the coverage of all work."""
    for model in _models(q):
        new, there = _committed(q, model)
        work = sum(
            weight * (_gpus(q, model, hour, services=True) + _gpus(q, model, hour, services=False))
            for hour, weight in q.hours
        )
        allowed = max(float(q.policy.coverage) * float(work) / HOURS, _peak(q, model))
        program.bound(new, 0, max(0.0, allowed - there, float(_peak(q, model) - there)))


def _regret(program: Program, q: Question) -> None:
    """What commitments beyond the services' peak would be worth on demand had the other work fallen: their cost less
    that worth is the regret, and it is bounded."""
    bound = float(q.policy.regret) * float(on_demand_only(q.wanted, q.offers))
    for model in _models(q):
        row = _regret_row(program, q, model)
        program.bound(row, -float("inf"), bound)


def _regret_row(program: Program, q: Question, model: str) -> dict[Key, float]:
    new, there = _committed(q, model)
    cheapest = min(float(o.price) for o in q.offers if ("new", o.name) in new)
    extra = program.add(("extra", model), whole=False)
    program.bound({**new, extra: -1.0}, -float("inf"), max(0, _peak(q, model) - there))
    worth = float(on_demand_price(q.offers, Class(Promise.FIRM, model)) or cheapest)
    row: dict[Key, float] = {extra: cheapest * HOURS}
    for hour, weight in q.hours:
        fallen = (1 - float(q.policy.fall)) * float(_gpus(q, model, hour, services=False))
        used = program.add(
            ("worth", model, hour), upper=max(0.0, fallen - max(0, there - _peak(q, model))), whole=False
        )
        program.bound({used: 1.0, extra: -1.0}, -float("inf"), 0)
        row[used] = -worth * weight
    return row


# ------------------------------------------------------------------ reading it


def _portfolio(q: Question, values: dict[Key, int], gap: float) -> Portfolio:
    used = tuple(u for offer in q.offers if (u := _used(q, offer, values)).gpu_hours or u.new)
    return Portfolio(
        used=used,
        short=tuple(_shorts(q, values)),
        cost=sum((u.cost for u in used), Fraction(0)),
        on_demand_only=on_demand_only(q.wanted, q.offers),
        gap=gap,
        gpu_hours=sum(w.gpu_hours for w in q.wanted),
    )


def _used(q: Question, offer: Offer, values: dict[Key, int]) -> Used:
    work = {
        hour: sum(w.of.gang * values.get(("on", offer.name, w.of, hour), 0) for w in q.wanted) for hour, _ in q.hours
    }
    gpu_hours = sum(work[hour] * weight for hour, weight in q.hours)
    if offer.is_committed:
        new = values.get(("new", offer.name), 0)
        instances = offer.existing + new
        paid = instances * offer.gpus * HOURS
        return Used(offer, new, instances, gpu_hours, paid, offer.price * new * offer.gpus * HOURS)
    needed = {hour: ceil(_taken(q, offer, hour, values) / offer.gpus) for hour, _ in q.hours}
    paid = sum(needed[hour] * offer.gpus * weight for hour, weight in q.hours)
    most = max(needed.values(), default=0)
    return Used(offer, most, most, gpu_hours, paid, offer.effective_price * paid)


def _taken(q: Question, offer: Offer, hour: int, values: dict[Key, int]) -> Fraction:
    """GPUs that gangs take in one hour."""
    on = ((values.get(("on", offer.name, w.of, hour), 0), space(offer, w.of)) for w in q.wanted)
    return sum((gangs * gpus for gangs, gpus in on), Fraction(0))


def _shorts(q: Question, values: dict[Key, int]) -> Iterator[Short]:
    for w in q.wanted:
        by_hour = [(values.get(("short", w.of, hour), 0), weight) for hour, weight in q.hours]
        most = max((gangs for gangs, _ in by_hour), default=0)
        if most:
            yield Short(w.of, w.of.gang * most, w.of.gang * sum(gangs * weight for gangs, weight in by_hour))
