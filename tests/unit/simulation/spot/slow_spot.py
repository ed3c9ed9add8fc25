"""The spot simulation again, written as plainly as can be and sharing no code: minutes instead of units, one dict per job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

TICK, DELAY = 10, 12


@dataclass
class World:
    """Rows of zone -> machines to be had; prices of zone -> (spot, on-demand)."""

    rows: list[dict[str, int]]
    prices: dict[str, tuple[Fraction, Fraction]]
    gang: int
    work: int
    deadline: int
    checkpoint: int

    @property
    def on_demand(self) -> Fraction:
        return min(b for _, b in self.prices.values())

    def there(self, row: int) -> list[str]:
        found = self.rows[row % len(self.rows)]
        return [z for z, n in found.items() if n >= self.gang and self.prices[z][0] < self.on_demand]


@dataclass
class Job:
    """Minutes throughout; `log` holds the progress of the present set of machines."""

    at: int = 0
    saved: int = 0
    place: str = "idle"
    ran: int = 0
    paid: Fraction = Fraction(0)
    preempted: int = 0
    been: list[str] = field(default_factory=list)

    @property
    def set_done(self) -> int:
        return max(0, self.ran - DELAY)

    @property
    def done(self) -> int:
        return self.saved + self.set_done

    def leave(self, keep: int) -> None:
        self.saved, self.ran, self.place = self.saved + keep, 0, "idle"


Rule = Callable[[World, Job, list[str]], str]


def cheapest(world: World, zones: list[str]) -> str:
    best = "idle"
    for zone in zones:
        if best == "idle" or world.prices[zone][0] < world.prices[best][0]:
            best = zone
    return best


def must(world: World, job: Job) -> bool:
    return world.work - job.done + 2 * DELAY + world.checkpoint >= world.deadline - job.at


def on_demand(world: World, job: Job, zones: list[str]) -> str:
    return "on-demand"


def spot(world: World, job: Job, zones: list[str]) -> str:
    return cheapest(world, zones) if job.place == "idle" else job.place


def greedy(world: World, job: Job, zones: list[str]) -> str:
    if must(world, job):
        return "on-demand"
    return job.place if job.place in zones else cheapest(world, zones)


def uniform_progress(world: World, job: Job, zones: list[str]) -> str:
    wanted = greedy(world, job, zones)
    if wanted != "idle":
        return wanted
    ahead = 2 * DELAY if job.place == "on-demand" else 0
    behind = Fraction(job.done, world.work) < Fraction(job.at + ahead, world.deadline)
    return "on-demand" if behind else "idle"


RULES: dict[str, Rule] = {
    "on-demand": on_demand, "spot": spot, "greedy": greedy, "uniform-progress": uniform_progress,
}  # fmt: skip


def play(world: World, row: int, rule: Rule) -> Job:
    """One job; ends with the work, or after three deadlines."""
    job = Job()
    while job.done < world.work and job.at < 3 * world.deadline:
        zones = world.there(row + job.at // TICK)
        if job.place not in ("idle", "on-demand", *zones):
            job.preempted += 1
            job.leave(job.set_done // world.checkpoint * world.checkpoint)
        wanted = rule(world, job, zones)
        if wanted != job.place:
            job.leave(job.set_done)
            job.place = wanted
        if job.place != "idle":
            job.ran += TICK
            price = world.on_demand if job.place == "on-demand" else world.prices[job.place][0]
            job.paid += price * Fraction(TICK, 60)
        job.been.append(job.place)
        job.at += TICK
    return job


def least(world: World, row: int) -> Fraction | None:
    """The least cost of any way to meet the deadline, by trying every place at every tick; None where there is none."""
    known: dict[tuple[int, int, str, int], Fraction | None] = {}

    def best(at: int, saved: int, place: str, ran: int) -> Fraction | None:
        done = max(0, ran - DELAY)
        if saved + done >= world.work:
            return Fraction(0)
        if at + TICK > world.deadline:
            return None
        zones = world.there(row + at // TICK)
        if place not in ("idle", "on-demand", *zones):
            saved, place, ran = saved + done // world.checkpoint * world.checkpoint, "idle", 0
        key = (at, saved, place, ran)
        if key not in known:
            costs = [go(at, saved, place, ran, to) for to in ("idle", "on-demand", *zones)]
            known[key] = min((c for c in costs if c is not None), default=None)
        return known[key]

    def go(at: int, saved: int, place: str, ran: int, to: str) -> Fraction | None:
        if to != place:
            saved, ran = saved + max(0, ran - DELAY), 0
        rest = best(at + TICK, saved, to, 0 if to == "idle" else ran + TICK)
        return None if rest is None else rest + price(world, to) * Fraction(TICK, 60)

    return best(0, 0, "idle", 0)


def price(world: World, place: str) -> Fraction:
    """Per GPU-hour at that place."""
    if place == "idle":
        return Fraction(0)
    return world.on_demand if place == "on-demand" else world.prices[place][0]
