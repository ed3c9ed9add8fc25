"""Where a deadline gang runs until the next look: our policy.

Its coin is *spare time*: time left less work left. It never grows. On-demand uses none, but costs the full price; waiting, the
delay of a new set of machines and what an interruption takes back use it up. As long as there is plenty for the work that is
left it is free, and a tick of work is worth what spot work costs here on average; once it is scarce a tick of work is worth
its on-demand price and a unit of spare time what it can still save. Between the two lies `scarcity`, from 0 to 1.

Every possibility is then a bet with a price: a visit to a zone (its price for as long as it is expected to last, less the work
that brings, plus the spare time it uses), the wait for a zone that is down, or on-demand. The cheapest that is safe is taken
(`safety`: whatever happens, on-demand still meets the deadline).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

from gpufleet.procurement.spot.going_rate import GoingRate
from gpufleet.procurement.spot.safety import least_spare, may_run, may_wait, spare_time, time_left
from gpufleet.procurement.spot.survival import Outlook
from gpufleet.procurement.spot.terms import IDLE, ON_DEMAND, Standing, Terms


@dataclass(frozen=True, slots=True)
class SpotPolicy:
    """Numbers of the policy, tuned together on a recorded market (docs/procurement.md). Bets are in on-demand ticks."""

    price_markup: float = 1.284
    """What a tick of spot work costs, as a multiple of the cheapest price there was on average."""
    scarce_floor: float = 0.248
    """Units of spare time for each tick of work left below which spare time is scarce: this, ..."""
    scarce_slope: float = 0.287
    """... plus this, times the need of a plain gang."""
    reserve: float = 1.234
    """Spare time that is not counted on, in parts of `least_spare`."""
    visit_spare: float = 0.81
    """Spare time below which no new visit begins, in parts of `least_spare`."""
    steepness: float = 3.146
    """How fast scarcity sets in."""
    worth_scarce: float = 4.471
    """What spare time is worth when it is scarce, as a multiple of what it saves at the rate of the need ..."""
    worth_always: float = 0.019
    """... and when it is not, falling off ..."""
    worth_reach: float = 0.661
    """... within so many times the scarce amount."""
    hop: float = 1.162
    """What a change of zones must bring: forecasts of both are uncertain."""
    other_zone: float = 2.0
    """What another zone than the first of the cheapest must bring at the same price, where the market is calm: lives hardly
    differ there, and their forecasts are mostly chance."""
    on_demand_stay: float = 76.471
    """Ticks that on-demand is bought for, once it is."""
    on_demand_bar: float = 42.497
    """What on-demand must bring."""
    wait_part: float = 1.2
    """The expected wait is counted so many times: some waits never end."""
    leave_bonus: float = 2.611
    """What a visit from on-demand is given in advance, ..."""
    leave_part: float = 0.305
    """... plus this part of a delay's worth: on-demand is no place to stay."""


POLICY: Final = SpotPolicy()


@dataclass(frozen=True, slots=True)
class Worth:
    """What a tick of work and a unit of spare time are worth now, in on-demand ticks."""

    work: float
    spare: float


def worth(terms: Terms, at: Standing, rate: GoingRate, policy: SpotPolicy = POLICY) -> Worth:
    """From the spare time for each tick of work left, against what the market has been asking for.

    One restart's worth of spare time is never worth more than all that the work left could save.
    """
    left = (terms.work - at.done) / terms.tick
    each = max(0.0, (spare_time(terms, at) - policy.reserve * least_spare(terms)) / left)
    enough = policy.scarce_floor + policy.scarce_slope * rate.need
    scarcity = math.exp(-((each / enough) ** policy.steepness))
    cost = min(0.95, max(0.05, rate.price * policy.price_markup))
    always = policy.worth_always * math.exp(-each / (enough * policy.worth_reach))
    spare = (1 - cost) / enough * (policy.worth_scarce * scarcity + always)
    most = (1 - cost) * left / (terms.delay + terms.checkpoint)
    return Worth(work=min(1.0, cost + (1 - cost) * scarcity), spare=min(spare, most))


def choose(
    terms: Terms,
    at: Standing,
    outlook: Outlook,
    rate: GoingRate,
    policy: SpotPolicy = POLICY,
) -> int:
    """A zone of `at.up`, `ON_DEMAND` or `IDLE`, for the tick to come. Pure; the outlook has seen the present row."""
    if time_left(terms, at.tick) <= 0:
        return ON_DEMAND
    table = _Bets(terms, at, outlook, rate, policy)
    visit, zone = table.best_visit()
    if at.place == ON_DEMAND:
        return zone if visit <= 0 else ON_DEMAND
    bought, waited = table.on_demand(), table.best_wait()
    if zone != IDLE and visit <= min(bought, waited):
        return zone
    return IDLE if waited < bought else ON_DEMAND


class _Bets:
    """What each possibility is expected to cost beyond what it is worth."""

    def __init__(self, terms: Terms, at: Standing, outlook: Outlook, rate: GoingRate, policy: SpotPolicy) -> None:
        self.terms, self.at, self.outlook, self.rate, self.policy = terms, at, outlook, rate, policy
        self.worth = worth(terms, at, rate, policy)

    def best_visit(self) -> tuple[float, int]:
        """The best of the zones that are safe; of equal ones where the gang is, then the first."""
        new = spare_time(self.terms, self.at) >= self.policy.visit_spare * least_spare(self.terms)
        safe = (z for z in self.at.up if (new or z == self.at.place) and may_run(self.terms, self.at, z))
        plain = min(self.at.up, key=lambda zone: (self.rate.prices[zone], zone), default=IDLE)
        bets = ((self._visit(zone) + self._change(zone, plain), zone != self.at.place, zone) for zone in safe)
        best = min(bets, default=(math.inf, True, IDLE))
        return best[0], best[2]

    def best_wait(self) -> float:
        """For the zone that is best worth it; infinite where waiting is not safe or nothing is down."""
        if not may_wait(self.terms, self.at):
            return math.inf
        down = (zone for zone in range(len(self.rate.prices)) if zone not in self.at.up)
        tick = self.terms.tick * self.worth.spare * self.policy.wait_part
        best = min((self._visit(zone) + tick * self.outlook.wait(zone) for zone in down), default=math.inf)
        return best + (self.policy.hop if self.at.place >= 0 else 0.0)

    def on_demand(self) -> float:
        """Its full price for a while, and the delay."""
        start = self.terms.delay * self.worth.spare
        return (1 - self.worth.work) * self.policy.on_demand_stay + start + self.policy.on_demand_bar

    def _change(self, zone: int, plain: int) -> float:
        """What leaving the present place adds, and for a gang in no zone another choice than the plain one."""
        if self.at.place >= 0:
            return self.policy.hop if zone != self.at.place else 0.0
        is_alike = zone != plain and self.rate.prices[zone] == self.rate.prices[plain]
        other = self.policy.other_zone * max(0.0, 1 - self.rate.need) if is_alike else 0.0
        if self.at.place == ON_DEMAND:
            return other - self.policy.leave_bonus - self.policy.leave_part * self.terms.delay * self.worth.spare
        return other

    def _visit(self, zone: int) -> float:
        """A stay until the zone is lost or the work is done."""
        terms, stays = self.terms, zone == self.at.place
        delay = max(0, terms.delay - terms.tick * self.at.ticks if stays else terms.delay) / terms.tick
        whole = (terms.work - self.at.done) / terms.tick + delay
        life = self.outlook.life(zone)
        ends = math.exp(-whole / life)
        lasts = min(life * (1 - ends), whole)
        lost = (1 - ends) * expected_loss(terms, life - delay)
        brings = lasts - delay - lost / terms.tick
        used = terms.tick * delay + lost
        return self.rate.prices[zone] * lasts - self.worth.work * brings + self.worth.spare * used


def expected_loss(terms: Terms, useful: float) -> float:
    """Units that an interruption takes back after so many useful ticks on average (lives exponential)."""
    done = max(0.5, terms.tick * useful)
    interval = terms.checkpoint
    part = (done - interval / math.expm1(min(700.0, interval / done))) / (interval / 2)
    return part * mean_loss(terms)


@cache
def mean_loss(terms: Terms) -> float:
    """Over the ends of ticks of a long stay: saves and ticks need not fall together."""
    ends = range(2, 60)
    return sum(terms.lost(ticks) for ticks in ends) / len(ends)
