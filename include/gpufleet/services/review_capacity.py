"""A look at what capacity is worth: how much of the work stands on committed capacity, how busy that is, what today's
demand would best be bought as, and what owning costs against it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row

from gpufleet.formats.break_even import decimals
from gpufleet.formats.ownership import load_ownership
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.model.hardware import Node
from gpufleet.procurement.break_even import BreakEven, break_even
from gpufleet.procurement.demand import Class, DemandPolicy, Ran, class_of, demand
from gpufleet.procurement.guards import Guards
from gpufleet.procurement.milp import solve
from gpufleet.procurement.portfolio import COMMITTED, Offer, Portfolio, PortfolioPolicy, explained
from gpufleet.services.approve_purchase import waiting_purchases
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import amount_held, frozen
from gpufleet.services.spending import NANO, spent
from gpufleet.store import jobs, places, world

WEEK: Final = timedelta(weeks=1)
HOUR: Final = timedelta(hours=1)
OWNERSHIP: Final = "ownership.yaml"
"""In the home, where hardware of one's own is to be weighed against the cloud (docs/break-even.md)."""
HISTORY: Final = 4
"""Weeks of the past that demand is read from."""
SOLVER_SECONDS: Final = 20.0


def capacity_view(fleet: Fleet) -> dict[str, Any]:
    """{waiting, money, portfolio}: everything a person decides about purchases with."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        today = spent(connection, now)
        hourly = sum((Fraction(i.price_nano, NANO) for i in world.instances(connection)), Fraction(0))
    daily = fleet.guards.daily
    return {
        "waiting": waiting_purchases(fleet),
        "money": {
            "machines": today.instances,
            "hourly": f"{float(hourly):.2f}",
            "today": f"{float(today.today):.2f}",
            "daily": None if daily is None else str(daily),
        },
        "portfolio": _portfolio_view(*portfolio_of(fleet)),
    }


def review_capacity(fleet: Fleet) -> dict[str, Any]:
    """The weekly report: {from, to, gpu_hours, coverage, committed: [{node, capacity, utilisation}], owned, portfolio}.
    Shares are of the last week's GPU-hours; `owned` is None where the home has no ownership.yaml."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        nodes = {node.name: node for node in world.nodes(connection)}
        used = _gpu_hours(places.held_since(connection, now - WEEK), {n: v.model.name for n, v in nodes.items()}, now)
    total = sum(used.values())
    committed = [node for node in nodes.values() if node.capacity in COMMITTED]
    covered = sum(used.get(node.name, 0.0) for node in committed)
    return {
        "from": (now - WEEK).isoformat(),
        "to": now.isoformat(),
        "gpu_hours": round(total, 1),
        "coverage": round(covered / total, 3) if total else None,
        "committed": [_utilisation(node, used) for node in sorted(committed, key=lambda n: n.name)],
        "owned": _owned(fleet.home / OWNERSHIP, [n for n in committed if n.capacity is CapacityType.OWNED], used),
        "portfolio": _portfolio_view(*portfolio_of(fleet)),
    }


def _owned(file: Path, nodes: list[Node], used: Mapping[str, float]) -> dict[str, Any] | None:
    """Owned against the cloud of the file: at its utilisation, and as busy as the owned nodes really were last week."""
    if not file.is_file():
        return None
    asked = load_ownership(file)
    there = sum(len(node.devices) for node in nodes) * (WEEK / HOUR)
    measured = Fraction(round(1000 * sum(used.get(n.name, 0.0) for n in nodes) / there), 1000) if there else None
    found = break_even(asked)
    really = break_even(replace(asked, utilisation=min(measured, Fraction(1)))) if measured is not None else None
    return {
        "months": _months(found),
        "utilisation": float(asked.utilisation),
        "measured_utilisation": None if measured is None else float(measured),
        "months_as_measured": None if really is None else _months(really),
    }


def _months(found: BreakEven) -> str:
    return "never within the horizon" if found.months is None else decimals(found.months)


def portfolio_of(fleet: Fleet) -> tuple[Portfolio, tuple[Offer, ...]]:
    """The best portfolio for what is known: jobs now and the last four weeks, the offerings of today, nodes that are
    owned or reserved as they are."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        snapshot = frozen(connection, fleet, now)
        wanted = demand(snapshot, _history(connection, now), DemandPolicy(), _regions(fleet.guards))
        on_sale = (o for o, _, _ in world.offerings(connection) if o.available)
        offers = (*_there(snapshot.nodes), *fleet.commitments, *map(_offer, on_sale))
    most = Fraction(fleet.buying.max_hourly)
    return solve(wanted, offers, PortfolioPolicy(max_hourly=most, seconds=SOLVER_SECONDS)), offers


def _portfolio_view(found: Portfolio, offers: Iterable[Offer]) -> dict[str, Any]:
    return {
        "lines": list(explained(found, tuple(offers), "")),
        "cost": f"{float(found.cost):.2f}",
        "on_demand_only": f"{float(found.on_demand_only):.2f}",
        "keeps_the_promise": found.keeps_the_promise,
        "coverage": f"{float(found.coverage):.3f}",
    }


# ------------------------------------------------------------------ facts


def _regions(guards: Guards) -> dict[str, tuple[str, ...]]:
    return {name: team.regions for name, team in guards.teams if team.regions}


def _there(nodes: Iterable[Node]) -> tuple[Offer, ...]:
    """Owned and reserved nodes: of each kind as many as there are, and no more."""
    kinds = Counter(
        (n.capacity, n.model.name, len(n.devices), n.region, bool(n.fabric)) for n in nodes if n.capacity in COMMITTED
    )
    return tuple(
        Offer(
            name=f"{capacity} {model} in {region or 'one place'}",
            capacity=capacity,
            model=model,
            gpus=gpus,
            price=Fraction(0),
            region=region,
            existing=count,
            most=count,
        )
        for (capacity, model, gpus, region, _), count in sorted(kinds.items(), key=str)
    )


def _offer(offering: Offering) -> Offer:
    return Offer(
        name=offering.name,
        capacity=CapacityType(offering.capacity),
        model=offering.model,
        gpus=offering.gpus,
        price=offering.price_per_gpu_hour,
        region=offering.region,
    )


def _history(connection: Connection, now: datetime) -> list[Ran]:
    """Gangs that ran in each hour of the past weeks, by class."""
    policy, since = DemandPolicy(), now - HISTORY * WEEK
    rows = jobs.ran_since(connection, since)
    known = jobs.get_many(connection, {row.job for row in rows})
    gangs: dict[tuple[Class, datetime], int] = defaultdict(int)
    for row in rows:
        of = class_of(known[row.job].job, None, now, policy, ())
        for hour in _hours(max(row.running_at, since), row.ended_at or now):
            gangs[of, hour] += 1
    return [Ran(hour, of, count) for (of, hour), count in sorted(gangs.items(), key=lambda one: one[0][::-1])]


def _hours(begin: datetime, end: datetime) -> Iterator[datetime]:
    """Beginnings of the hours that the span touches."""
    hour = begin.replace(minute=0, second=0, microsecond=0)
    while hour < end:
        yield hour
        hour += HOUR


def _gpu_hours(rows: Iterable[Row[Any]], models: Mapping[str, str], now: datetime) -> dict[str, float]:
    """By node the GPU-hours that were held in the last week; of a slice or a share its part."""
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        begin, end = max(row.allocated_at, now - WEEK), row.released_at or now
        found[row.node] += float(amount_held(row, models.get(row.node)).gpus) * max(0.0, (end - begin) / HOUR)
    return dict(found)


def _utilisation(node: Node, used: dict[str, float]) -> dict[str, Any]:
    there = len(node.devices) * (WEEK / HOUR)
    share = round(used.get(node.name, 0.0) / there, 3) if there else None
    return {"node": node.name, "capacity": node.capacity.value, "utilisation": share}
