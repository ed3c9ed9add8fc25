"""The month replayed, ten minutes at a time, on one way to buy: where every gang is, what is paid, what is lost."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from benchmarks.capacity.market import CALM, INTERVAL, RESTART, Market, lost_share
from benchmarks.capacity.work import PER_HOUR, TICK, Gang

COMMITTED, ON_DEMAND, WAITING = "committed", "on-demand", ""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to buy. `committed` GPUs at `price` are paid for all hours."""

    name: str
    committed: int
    price: float
    spot: bool
    on_demand: bool
    services_on_spot: bool = False
    pool_share: float = 0.5


@dataclass(slots=True)
class Runs:
    """A gang under way: minutes of work done, of them saved, delay still to come."""

    gang: Gang
    place: str = WAITING
    done: int = 0
    saved: int = 0
    delay: int = 0
    there: int = 0
    """Ticks at its place."""


@dataclass(slots=True)
class Sums:
    """What the month came to. Service figures are GPU-hours; `late` are hours of training beyond its own length."""

    cost: float = 0.0
    gpu_hours: float = 0.0
    service_short: float = 0.0
    service_hours: float = 0.0
    short_ticks: int = 0
    replicas_lost: int = 0
    preemptions: int = 0
    redone: float = 0.0
    late: list[float] = field(default_factory=list)
    unfinished: int = 0
    committed_used: float = 0.0
    by_place: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class Replay:
    """One way to buy over the ticks from `begin` to `end`."""

    def __init__(self, way: Way, market: Market, serving: list[int], gangs: list[Gang]) -> None:
        self.way, self.market, self.serving = way, market, serving
        self.waiting = sorted(gangs, key=lambda g: (g.tick, g.number))
        self.running: list[Runs] = []
        self.sums = Sums()
        self.room: dict[str, int] = {}
        self.zones = sorted(market.spot, key=self._useful_price) if way.spot else []
        self.inviting: dict[str, int] = {}
        self.market_now: dict[str, int] = {}
        self.serving_in: dict[str, int] = {}

    def _useful_price(self, zone: str) -> tuple[float, str]:
        """Of an hour of work that counts, by what the plan knows of the zone."""
        return float(self.market.spot[zone] / (1 - lost_share(self.market, zone))), zone

    def run(self, begin: int, end: int) -> Sums:
        for tick in range(begin, end):
            self._tick(tick, tick - begin)
        self.sums.unfinished = len(self.running)
        return self.sums

    def _tick(self, tick: int, since: int) -> None:
        while self.waiting and self.waiting[0].tick <= tick:
            self.running.append(Runs(self.waiting.pop(0)))
        self.room = {zone: self.market.free(zone, since) for zone in self.zones}
        self.market_now = dict(self.room)
        self.inviting = {zone: self.market.calm(zone, since) for zone in self.zones}
        self.room[COMMITTED] = self.way.committed
        paid = self._serve(self.serving[tick])
        self._place()
        self._pay(paid)
        self._work(tick)

    def _serve(self, needed: int) -> float:
        """Services first; returns what they cost beyond commitments this hour."""
        left, cost = needed - min(needed, self.room[COMMITTED]), 0.0
        self.room[COMMITTED] -= needed - left
        self.sums.committed_used += (needed - left) / PER_HOUR
        if self.way.services_on_spot:
            left, cost = self._serve_on_spot(left)
        elif self.way.on_demand and not self.way.committed:
            left, cost = 0, math.ceil(left / 8) * 8 * float(self.market.on_demand)
        self.sums.service_hours += needed / PER_HOUR
        self.sums.gpu_hours += needed / PER_HOUR
        self.sums.service_short += left / PER_HOUR
        self.sums.short_ticks += left > 0
        return cost

    def _serve_on_spot(self, left: int) -> tuple[int, float]:
        """Replicas stay where they can; what the cloud took is away for a restart, and goes to the next zone."""
        cost, before = 0.0, self.serving_in
        lost = sum(max(0, there - self.room[zone]) for zone, there in before.items())
        self.sums.replicas_lost += lost
        self.sums.service_short += lost * RESTART / 60
        self.serving_in = {}
        for zone in sorted(self.zones, key=lambda z: (-before.get(z, 0), self._useful_price(z))):
            taken = min(left, self.room[zone])
            left, cost = left - taken, cost + taken * float(self.market.spot[zone])
            self.room[zone] -= taken
            self.serving_in[zone] = taken
        return left, cost

    # ------------------------------------------------------------------ places

    def _place(self) -> None:
        """Who is somewhere stays if it can, firm work first; then the others look for a place."""
        order = sorted(self.running, key=lambda r: (r.gang.interruptible, r.gang.tick, r.gang.number))
        homeless = [r for r in order if not self._stays(r)]
        for runs in homeless:
            self._settle(runs, self._found(runs))

    def _stays(self, runs: Runs) -> bool:
        place, gpus = runs.place, runs.gang.gpus
        if place == WAITING:
            return False
        if place == ON_DEMAND:
            looks = runs.gang.interruptible and runs.there % CALM == CALM - 1
            return not (looks and self._found(runs) != ON_DEMAND)
        if self.room[place] < gpus:
            return False
        self.room[place] -= gpus
        return True

    def _found(self, runs: Runs) -> str:
        """What is paid already, then the cheapest spot pool with room, then on demand, else it waits."""
        gpus = runs.gang.gpus
        if self.room[COMMITTED] >= gpus:
            return COMMITTED
        if runs.gang.interruptible or not self.way.on_demand:
            for zone in self.zones:
                if min(self.room[zone], self._invited(zone)) >= gpus and self._spread(zone, gpus):
                    return zone
        return ON_DEMAND if self.way.on_demand else WAITING

    def _invited(self, zone: str) -> int:
        """Room for newcomers: what was there for twenty minutes, less what is taken."""
        return self.inviting[zone] - (self.market_now[zone] - self.room[zone])

    def _spread(self, zone: str, gpus: int) -> bool:
        """Not more than a part of the interruptible work in one pool, but always one gang."""
        here = sum(r.gang.gpus for r in self.running if r.place == zone)
        spot = sum(r.gang.gpus for r in self.running if r.gang.interruptible)
        return here == 0 or here + gpus <= self.way.pool_share * spot

    def _settle(self, runs: Runs, place: str) -> None:
        if place not in (ON_DEMAND, WAITING):
            self.room[place] -= runs.gang.gpus
        if place == runs.place:
            return
        if runs.place not in (ON_DEMAND, WAITING, COMMITTED):  # the cloud took it: back to the last save
            self.sums.preemptions += 1
            self.sums.redone += (runs.done - runs.saved) / 60 * runs.gang.gpus
            runs.done = runs.saved
        if place != WAITING:
            runs.saved, runs.there = runs.done, 0
            runs.delay = RESTART if runs.done or runs.place else 0
        runs.place = place

    # ------------------------------------------------------------------ money and work

    def _pay(self, services: float) -> None:
        gpus: dict[str, float] = defaultdict(float)
        for runs in self.running:
            size = runs.gang.gpus
            gpus[runs.place] += 8 / (8 // size) if size < 8 and runs.place == ON_DEMAND else size
            if runs.place != WAITING:
                self.sums.gpu_hours += size / PER_HOUR
                self.sums.by_place[self._kind(runs.place)] += size / PER_HOUR
        self.sums.committed_used += gpus[COMMITTED] / PER_HOUR
        hourly = services + self.way.committed * self.way.price
        hourly += math.ceil(gpus[ON_DEMAND] / 8) * 8 * float(self.market.on_demand)
        hourly += sum(gpus[zone] * float(self.market.spot[zone]) for zone in self.zones)
        self.sums.cost += hourly / PER_HOUR

    def _kind(self, place: str) -> str:
        return place if place in (COMMITTED, ON_DEMAND) else "spot"

    def _work(self, tick: int) -> None:
        """Work of this tick; a save at each interval; who is done goes."""
        for runs in self.running:
            if runs.place == WAITING:
                continue
            runs.there += 1
            used = min(runs.delay, TICK)
            runs.delay -= used
            runs.done += TICK - used
            if runs.done - runs.saved >= INTERVAL:
                runs.saved += (runs.done - runs.saved) // INTERVAL * INTERVAL
        over = [r for r in self.running if r.done >= r.gang.minutes]
        self.sums.late += [max(0.0, (tick + 1 - r.gang.tick) * TICK / 60 - r.gang.minutes / 60) for r in over]
        self.running = [r for r in self.running if r.done < r.gang.minutes]
