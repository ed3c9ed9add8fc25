"""What queues used lately: GPU-time that counts for less the longer ago it was, as a share of what the fleet had.

The half-life halves the weight of an hour; time before the window does not count (KAI's time-based fair share,
docs/time-based-fairshare there).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import log

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.usage import Allocated, NodeUp, Released, UsageEvent
from gpufleet.units import GpuAmount

WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Held:
    """So many GPUs in use by a queue from `begin` to `end`; None = still."""

    queue: str
    gpus: Fraction
    begin: datetime
    end: datetime | None = None


def used_lately(
    held: Iterable[Held], gpus: Fraction, now: datetime, half_life: timedelta = WEEK, window: timedelta = WEEK
) -> dict[str, float]:
    """Queue -> decayed share of a fleet of so many GPUs, to six places; queues that used nothing are left out."""
    whole = float(gpus) * _decayed(now - window, now, now, half_life)
    used: dict[str, float] = {}
    for one in sorted(held, key=lambda h: (h.begin, h.queue)):
        begin, end = max(one.begin, now - window), min(one.end or now, now)
        if begin < end:
            used[one.queue] = used.get(one.queue, 0.0) + float(one.gpus) * _decayed(begin, end, now, half_life)
    return {queue: round(amount / whole, 6) for queue, amount in sorted(used.items())} if whole else {}


def _decayed(begin: datetime, end: datetime, now: datetime, half_life: timedelta) -> float:
    """Seconds from begin to end, each weighed by its age: the integral of 0.5^(age / half-life)."""
    since, until = (now - begin) / half_life, (now - end) / half_life
    return float(half_life.total_seconds() / log(2) * (0.5**until - 0.5**since))


def held_by_queues(events: Iterable[UsageEvent], queues: Mapping[str, str]) -> list[Held]:
    """Metered events as intervals; `queues` names the queue of each team, teams without one are left out."""
    models, found = dict[str, str](), list[Held]()
    still: dict[tuple[str, int, str, int], list[tuple[Allocated, GpuAmount]]] = {}
    for event in sorted(events, key=lambda e: (e.at, e.id)):
        match event:
            case NodeUp():
                models[event.node] = event.model
            case Allocated():
                key = (event.job, event.attempt, event.node, event.gpu)
                still.setdefault(key, []).append((event, _amount(event, models.get(event.node))))
            case Released():
                key = (event.job, event.attempt, event.node, event.gpu)
                gone = [h for h in still.get(key, ()) if event.start in (None, h[0].start)]
                still[key] = [h for h in still.get(key, ()) if h not in gone]
                found += [_held(h, queues, event.at) for h in gone if h[0].team in queues]
    return found + [_held(h, queues, None) for rest in still.values() for h in rest if h[0].team in queues]


def _amount(event: Allocated, model: str | None) -> GpuAmount:
    """The part of a GPU; a slice counts by its memory, and whole where the node's model is not known."""
    if event.fraction is not None:
        return GpuAmount.milli(round(event.fraction * 1000))
    profile = gpu_model(model).profile(event.profile) if model and event.profile else None
    return gpu_model(model).slice_amount(profile) if model and profile else GpuAmount.of(1)


def _held(holding: tuple[Allocated, GpuAmount], queues: Mapping[str, str], end: datetime | None) -> Held:
    event, amount = holding
    return Held(queues[event.team], amount.gpus, event.at, end)
