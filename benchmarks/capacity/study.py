"""The question of the month: four weeks are known, the next four are bought for and replayed."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from benchmarks.capacity.market import Market, anywhere_share, available_share, lost_share, market, offers
from benchmarks.capacity.replay import Replay, Sums, Way
from benchmarks.capacity.work import (
    BEGIN,
    HISTORY_DAYS,
    MONTH_DAYS,
    PER_DAY,
    TICK,
    Gang,
    history,
    services,
    training,
)
from gpufleet.model.capacity import CapacityType
from gpufleet.model.snapshot import Snapshot
from gpufleet.procurement.demand import DemandPolicy, demand
from gpufleet.procurement.milp import solve
from gpufleet.procurement.portfolio import COMMITTED, Portfolio, PortfolioPolicy, explained

OURS, OURS_OWNED = "our mix", "our mix, owned hardware instead of reserved"
GAP, SECONDS = 0.03, 600.0
"""Of the solver: the gap ends it, long before the time, so that every run answers alike."""


def study(seed: int) -> dict[str, Any]:
    """Everything that is told: the plan line by line, and each way's month."""
    days = HISTORY_DAYS + MONTH_DAYS
    found, serving, gangs = market(), services(days, seed), training(days, seed)
    plans = {name: _plan(found, serving, gangs, owned=owned) for name, owned in ((OURS, False), (OURS_OWNED, True))}
    ways = _ways(found, serving, gangs, plans)
    months = [_month(way, found, serving, gangs) for way in ways]
    base = next(month["cost"] for month in months if month["way"] == "on demand only")
    return {
        "seed": seed,
        "plan": list(explained(plans[OURS], offers(found, owned=False), "USD")),
        "planned_saving": round(float(plans[OURS].saved), 4),
        "zones": [
            {
                "zone": z,
                "price": float(found.spot[z]),
                "available": float(available_share(found, z)),
                "lost": float(lost_share(found, z)),
            }
            for z in sorted(found.spot)
        ],
        "months": [{**month, "against_on_demand": round(month["cost"] / base, 4)} for month in months],
    }


def _plan(found: Market, serving: list[int], gangs: list[Gang], *, owned: bool) -> Portfolio:
    empty = Snapshot(at=BEGIN, levels=(), nodes=(), queues=())
    wanted = demand(empty, history(gangs, serving, HISTORY_DAYS), DemandPolicy(), {})
    policy = PortfolioPolicy(spot_share=anywhere_share(found), gap=GAP, seconds=SECONDS)
    return solve(wanted, offers(found, owned=owned), policy)


def _ways(found: Market, serving: list[int], gangs: list[Gang], plans: dict[str, Portfolio]) -> list[Way]:
    reserved = float(found.reserved)
    peak = -(-_peak(serving, gangs) // 8) * 8
    ours = {name: _committed(plan) for name, plan in plans.items()}
    return [
        Way("on demand only", 0, 0.0, spot=False, on_demand=True),
        Way("reserved only, enough for the busiest ten minutes", peak, reserved, spot=False, on_demand=False),
        Way("spot only", 0, 0.0, spot=True, on_demand=False, services_on_spot=True, pool_share=1.0),
        Way(OURS, ours[OURS], reserved, spot=True, on_demand=True),
        Way(OURS_OWNED, ours[OURS_OWNED], float(found.owned), spot=True, on_demand=True),
    ]


def _committed(plan: Portfolio) -> int:
    kinds = {CapacityType(kind) for kind in COMMITTED}
    return sum(used.instances * used.offer.gpus for used in plan.used if used.offer.capacity in kinds)


def _peak(serving: list[int], gangs: list[Gang]) -> int:
    """GPUs of the busiest ticks of the month, with hindsight, if every job runs as soon as it is asked for."""
    busy = list(serving)
    for gang in gangs:
        for tick in range(max(0, gang.tick), min(len(busy), gang.tick + -(-gang.minutes // TICK))):
            busy[tick] += gang.gpus
    return max(busy[HISTORY_DAYS * PER_DAY :])


def _month(way: Way, found: Market, serving: list[int], gangs: list[Gang]) -> dict[str, Any]:
    begin, end = HISTORY_DAYS * PER_DAY, (HISTORY_DAYS + MONTH_DAYS) * PER_DAY
    asked = [g for g in gangs if g.tick >= begin]
    sums = Replay(way, found, serving, asked).run(begin, end)
    return {"way": way.name, "committed_gpus": way.committed, **_figures(way, sums), "ticks": end - begin}


def _figures(way: Way, sums: Sums) -> dict[str, Any]:
    paid = way.committed * MONTH_DAYS * 24
    return {
        "cost": round(sums.cost, 2),
        "gpu_hours": round(sums.gpu_hours, 1),
        "service_gpu_hours": round(sums.service_hours, 1),
        "service_short_gpu_hours": round(sums.service_short, 1),
        "service_short_ticks": sums.short_ticks,
        "replicas_lost": sums.replicas_lost,
        "preemptions": sums.preemptions,
        "redone_gpu_hours": round(sums.redone, 1),
        "mean_late_hours": round(fmean(sums.late), 3) if sums.late else None,
        "finished": len(sums.late),
        "unfinished": sums.unfinished,
        "committed_used": round(sums.committed_used / paid, 3) if paid else None,
        "training_gpu_hours": {kind: round(hours, 1) for kind, hours in sorted(sums.by_place.items())},
    }
