"""A plan as JSON (docs/formats.md, section 1)."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from gpufleet.model.plan import CapacityRequest, Eviction, Move, Plan, Repartition, Waiting
from gpufleet.model.snapshot import PodPlace, Snapshot
from gpufleet.model.workload import Demand, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.scheduling.explain import Explanation
from gpufleet.units import MIB_PER_GIB


def to_json(plan: Plan, snapshot: Snapshot) -> dict[str, Any]:
    """The plan's document; the snapshot says where moved pods come from."""
    running = {r.job.id: r.places for r in snapshot.running}
    return {
        "placements": [
            {"job": p.job, "after": list(p.after), "pods": [pod(place) for place in p.pods]} for p in plan.placements
        ],
        "evictions": [eviction(e) for e in plan.evictions],
        "moves": [move(m, running[m.job]) for m in plan.moves],
        "repartitions": [repartition(r) for r in plan.repartitions],
        "pending": [waiting(w) for w in plan.waiting],
        "capacity_requests": [request(r) for r in plan.capacity_requests],
    }


def hours(amount: Fraction) -> str:
    """GPU-hours as a decimal string, to the hundredth."""
    return f"{float(amount):.2f}"


def pod(place: PodPlace) -> dict[str, Any]:
    """One pod and its devices."""
    return {"set": place.pod_set, "rank": place.rank, "node": place.node, **_devices(place)}


def _devices(place: PodPlace) -> dict[str, Any]:
    if place.slices:
        return {
            "slices": [{"gpu": s.gpu, "profile": s.instance.profile, "start": s.instance.start} for s in place.slices]
        }
    if place.shares:
        return {
            "shares": [{"gpu": s.gpu, "fraction": fraction(s.milli), "memory_mib": s.memory_mib} for s in place.shares]
        }
    return {"gpus": list(place.gpus)}


def fraction(milli: int) -> str:
    """Thousandths as a decimal string: 500 is `0.5`."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def eviction(entry: Eviction) -> dict[str, Any]:
    """One stop."""
    return {
        "job": entry.job,
        "pods": "all" if entry.ranks is None else list(entry.ranks),
        "for": entry.for_job,
        "reason": entry.why,
        "lost_gpu_hours": hours(entry.lost_gpu_hours),
    }


def move(entry: Move, before: tuple[PodPlace, ...]) -> dict[str, Any]:
    """One move; `before` is where the whole job stands."""
    number = {place.rank: i for i, place in enumerate(before)}
    return {
        "job": entry.job,
        "for": entry.for_job,
        "pods": [
            {"rank": number[p.rank], "from": source, "to": p.node, **_devices(p)}
            for p, source in zip(entry.places, entry.sources, strict=True)
        ],
        "lost_gpu_hours": hours(entry.lost_gpu_hours),
    }


def repartition(change: Repartition) -> dict[str, Any]:
    """One GPU cut anew."""
    return {
        "node": change.node,
        "gpu": change.gpu,
        "create": [str(i) for i in change.create],
        "destroy": [str(i) for i in change.destroy],
        "by": str(change.by),
        "keeps": change.keeps,
        "seconds": change.seconds,
    }


def waiting(entry: Waiting) -> dict[str, Any]:
    """One pending job's entry."""
    return {
        "job": entry.job,
        "position": entry.position,
        "queue_position": entry.queue_position,
        "reason": str(entry.reason),
        "detail": entry.detail,
        "unblock": entry.unblock,
    }


def explanation_to_json(found: Explanation) -> dict[str, Any]:
    """One job's explanation."""
    return {
        "job": found.job,
        "state": found.state,
        "position": found.position,
        "queue_position": found.queue_position,
        "reason": None if found.reason is None else str(found.reason),
        "detail": found.detail,
        "unblock": found.unblock,
        "levels": [
            {"level": a.level, "domains": a.domains, "best": a.best, "needed": a.needed, "fits": a.fits}
            for a in found.levels
        ],
        "checks": [{"level": c.level, "ok": c.ok, "detail": c.detail} for c in found.checks],
        "options": [{"kind": o.kind, "detail": o.detail} for o in found.options],
        "expected_start": _instant(found.expected_start),
        "cut": found.cut,
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


def request(entry: CapacityRequest) -> dict[str, Any]:
    """Capacity for one waiting job."""
    return {
        "for": entry.for_job,
        "pods": [_pod_set(s) for s in entry.pods],
        "models": list(entry.models),
        "topology": _topology(entry.topology),
        "capacity": [str(c) for c in entry.capacity],
    }


def _topology(wish: TopologyWish) -> dict[str, str]:
    found = {"required": wish.required, "preferred": wish.preferred, "spread": wish.spread}
    return {key: value for key, value in found.items() if value is not None}


def _pod_set(pod_set: PodSet) -> dict[str, Any]:
    found: dict[str, Any] = {"count": pod_set.count, **_demand(pod_set.demand)}
    if pod_set.cpu is not None:
        found["cpu"] = pod_set.cpu
    if pod_set.memory_mib is not None:
        found["memory_gib"] = _gib(pod_set.memory_mib)
    return found


def _demand(demand: Demand) -> dict[str, Any]:
    match demand:
        case Whole(gpus):
            return {"gpus": gpus}
        case Share(milli, memory):
            return {"share": {"fraction": fraction(milli), "memory_gib": _gib(memory)}}
        case Slice(memory, compute, None):
            return {"slice": {"memory_gib": _gib(memory), "compute": compute}}
        case Slice(_, _, profile):
            return {"profile": profile}


def _gib(mib: int) -> int | float:
    return mib // MIB_PER_GIB if mib % MIB_PER_GIB == 0 else mib / MIB_PER_GIB
