"""The cheapest mix of owned, reserved, on-demand and spot capacity that keeps every promise: a question and its answer.

Prices are per GPU-hour, amounts of the horizon (one week of hours, which stands for the whole term). What is committed
to is paid for all hours; what is there already costs nothing more. `solve` is in `milp.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from gpufleet.model.capacity import CapacityType
from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.procurement.demand import HOURS, Class, Promise, Wanted

COMMITTED: Final = (CapacityType.OWNED, CapacityType.RESERVED)
"""Paid for all hours."""
ALLOWED: Final = {
    Promise.SERVICE: COMMITTED,
    Promise.FIRM: (*COMMITTED, CapacityType.ON_DEMAND),
    Promise.INTERRUPTIBLE: tuple(CapacityType),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be had: instances of `gpus` GPUs in one pool (a zone of an instance type), one fabric domain.

    `existing` instances are there and paid for; `most` is how many there can be in all. `lost` is the part of the paid
    time in spot capacity that comes to nothing (work done again, restarts)."""

    name: str
    capacity: CapacityType
    model: str
    gpus: int
    price: Fraction
    region: str = ""
    fabric: bool = True
    existing: int = 0
    most: int | None = None
    lost: Fraction = Fraction(0)

    @property
    def effective_price(self) -> Fraction:
        """Of an hour of useful work."""
        return self.price / (1 - self.lost)

    @property
    def is_committed(self) -> bool:
        return self.capacity in COMMITTED


@dataclass(frozen=True, slots=True)
class PortfolioPolicy:
    """What bounds a purchase besides its price."""

    spot_pool_share: Fraction = Fraction(1, 2)
    """Of the interruptible work of an hour at most this part (and always one gang) in one spot pool."""
    spot_share: Fraction = Fraction(1)
    """Of the interruptible work of a class at most this part on spot altogether: the part of the hours in which whole
    gangs of it are to be had."""
    coverage: Fraction = Fraction(9, 10)
    """New commitments for other work than services: together with all others at most this part of all GPU-hours."""
    fall: Fraction = Fraction(3, 10)
    """Regret is what a commitment would have cost too much, had all work but services been this part less, ..."""
    regret: Fraction = Fraction(1, 20)
    """... and stays below this part of what everything would cost on demand."""
    max_hourly: Fraction | None = None
    """The most that on-demand and spot capacity may cost in any hour."""
    seconds: float = 60.0
    """For the solver; then the best it has counts, with its gap stated."""
    gap: float = 0.005
    """It may stop within this part of the least cost."""


@dataclass(frozen=True, slots=True)
class Used:
    """What one offer is used for: `instances` that are paid (of on-demand and spot the most at a time), GPU-hours of
    work on it, GPU-hours paid, and what of them is new cost."""

    offer: Offer
    new: int
    instances: int
    gpu_hours: int
    paid_gpu_hours: int
    cost: Fraction

    @property
    def utilisation(self) -> Fraction:
        return Fraction(self.gpu_hours, self.paid_gpu_hours) if self.paid_gpu_hours else Fraction(0)


@dataclass(frozen=True, slots=True)
class Short:
    """Work that nothing allowed could serve: the most GPUs at a time, and GPU-hours."""

    of: Class
    gpus: int
    gpu_hours: int


@dataclass(frozen=True, slots=True)
class Portfolio:
    """`on_demand_only`: what the same work would cost on the cheapest on-demand capacity that suits it. `gap`: how far
    the cost may lie above the least there is, as a part of it."""

    used: tuple[Used, ...]
    short: tuple[Short, ...]
    cost: Fraction
    on_demand_only: Fraction
    gap: float
    gpu_hours: int

    @property
    def saved(self) -> Fraction:
        return 1 - self.cost / self.on_demand_only if self.on_demand_only else Fraction(0)

    @property
    def keeps_the_promise(self) -> bool:
        """Every service has reserved or owned capacity in every hour."""
        return not any(short.of.promise is Promise.SERVICE for short in self.short)

    @property
    def coverage(self) -> Fraction:
        """The part of the GPU-hours that committed capacity serves."""
        covered = sum(u.gpu_hours for u in self.used if u.offer.is_committed)
        return Fraction(covered, self.gpu_hours) if self.gpu_hours else Fraction(0)


def suits(offer: Offer, of: Class) -> bool:
    """Whether this capacity may serve this work at all."""
    promised = ALLOWED[of.promise]
    return offer.capacity in promised and offer.capacity in (of.capacity or promised) and _is_like(offer, of)


def _is_like(offer: Offer, of: Class) -> bool:
    """Model, place and size, whatever was promised."""
    return (
        of.model in (ANY_MODEL, offer.model)
        and (not of.regions or offer.region in of.regions)
        and (offer.fabric if of.fabric else of.gang <= offer.gpus)
    )


def space(offer: Offer, of: Class) -> Fraction:
    """GPUs that a gang takes of such instances: of 8, a gang of 3 takes 4, since only two of them fit."""
    if of.gang >= offer.gpus:
        return Fraction(of.gang)
    return Fraction(offer.gpus, offer.gpus // of.gang)


def on_demand_offer(offers: Sequence[Offer], of: Class) -> Offer | None:
    """The cheapest on-demand capacity like this work, promises about capacity types aside; None where there is none."""
    like = (o for o in offers if o.capacity is CapacityType.ON_DEMAND and _is_like(o, of))
    return min(like, key=lambda o: (o.price, o.name), default=None)


def on_demand_price(offers: Sequence[Offer], of: Class) -> Fraction | None:
    offer = on_demand_offer(offers, of)
    return None if offer is None else offer.price


def on_demand_only(wanted: Sequence[Wanted], offers: Sequence[Offer]) -> Fraction:
    """What all work would cost on demand, each class on its cheapest offer, in whole instances hour by hour; work that
    no on-demand offer is like is left out."""
    chosen = [(w, offer) for w in wanted if (offer := on_demand_offer(offers, w.of)) is not None]
    return sum((_hourly(chosen, hour) for hour in range(HOURS)), Fraction(0))


def _hourly(chosen: Sequence[tuple[Wanted, Offer]], hour: int) -> Fraction:
    gpus: dict[Offer, Fraction] = {}
    for w, offer in chosen:
        gpus[offer] = gpus.get(offer, Fraction(0)) + w.gangs[hour] * space(offer, w.of)
    return sum((ceil(g / o.gpus) * o.gpus * o.price for o, g in gpus.items()), Fraction(0))


def break_even_utilisation(offer: Offer, offers: Sequence[Offer], of: Class) -> Fraction | None:
    """The part of the hours from which a commitment is cheaper than the cheapest on-demand capacity."""
    on_demand = on_demand_price(offers, of)
    return None if not on_demand else offer.price / on_demand


# ------------------------------------------------------------------ line by line


def explained(found: Portfolio, offers: Sequence[Offer], currency: str) -> tuple[str, ...]:
    """What it buys, how many, why, and what the same work would cost on demand only; then the sum, and what is short."""
    lines = [_line(used, offers, currency) for used in found.used]
    lines += [
        f"short: {short.gpus} GPUs at most ({short.gpu_hours} GPU-hours) of {told(short.of)}: nothing allowed serves it."
        for short in found.short
    ]
    sentence = (
        f"In all {float(found.cost):,.2f} {currency} a week; on demand only {float(found.on_demand_only):,.2f}:"
        f" {float(found.saved):.1%} less. {float(found.coverage):.0%} of {found.gpu_hours:,} GPU-hours on committed"
        f" capacity. At most {found.gap:.2%} above the least there is."
    )
    return (*lines, sentence)


def _line(used: Used, offers: Sequence[Offer], currency: str) -> str:
    offer = used.offer
    count = f"{used.instances} x {offer.gpus} GPUs" + (f" ({used.new} new)" if offer.is_committed else " at most")
    like = Class(Promise.FIRM, offer.model)
    price = on_demand_price(offers, like)
    instead = "" if price is None else f"; on demand only {float(price * used.gpu_hours):,.2f}"
    cost = f"{float(used.cost):,.2f} {currency} a week for {used.gpu_hours:,} GPU-hours{instead}"
    return f"{offer.name}, {offer.capacity}: {count}: {cost}. {_why(used, offers, like)}"


def _why(used: Used, offers: Sequence[Offer], like: Class) -> str:
    offer = used.offer
    if offer.is_committed:
        pays = break_even_utilisation(offer, offers, like)
        from_there = "" if pays is None else f"; a new one pays from {float(pays):.0%}"
        there = "" if used.new else " It is there already and costs nothing more."
        return f"Used {float(used.utilisation):.0%} of the hours{from_there}.{there}"
    if offer.capacity is CapacityType.SPOT:
        again = (
            f"{float(offer.lost):.0%} of it is done again, so a useful hour costs {float(offer.effective_price):.2f}"
        )
        return f"Work that may be interrupted; {again}."
    return "What may not be interrupted and is wanted too seldom to commit to."


def told(of: Class) -> str:
    """A class in words."""
    size = f", gangs of {of.gang}" if of.gang > 1 else ""
    where = f", in {' or '.join(of.regions)}" if of.regions else ""
    return f"{of.promise} work on {'any model' if of.model == ANY_MODEL else of.model}{size}{where}"
