"""A second look at a bill before it is published, by other means than those it was made with.

Charges sum to cost, and every GPU-hour of every node is in one line or idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from gpufleet.chargeback.days import FOREVER, HOUR, days, micros
from gpufleet.chargeback.rates import Rates
from gpufleet.chargeback.statement import Bill, half_up
from gpufleet.model.usage import Allocated, NodeDown, NodeUp, UsageEvent


def faults(bill: Bill, events: Sequence[UsageEvent], rates: Rates) -> Iterator[str]:
    """What does not add up, a sentence each; nothing for a sound bill."""
    charged = sum(line.total for line in bill.lines) + bill.idle_cost + bill.unused_cost
    if charged != bill.total:
        yield f"lines, idle and unused commitments sum to {charged} units, the total is {bill.total}"
    window = days(bill.start, bill.end, rates.timezone)
    up = up_time(events, window[0].begin, window[-1].end)
    hours = sum(line.gpu_hours for line in bill.lines) + bill.idle_hours
    if up is not None and half_up(up * 10**bill.hour_decimals) != hours:
        yield f"allocated and idle are {hours} units of GPU-time, the nodes were up for {float(up):.9g} GPU-hours"


def up_time(events: Sequence[UsageEvent], begin: int, end: int) -> Fraction | None:
    """GPU-hours that the nodes were up in [begin, end); None where something ran on a node nobody announced."""
    told: dict[str, set[UsageEvent]] = {}
    for event in events:
        told.setdefault(event.id, set()).add(event)
    certain = [event for versions in told.values() if len(versions) == 1 for event in versions]
    nodes: dict[str, list[NodeUp | NodeDown]] = {}
    for event in certain:
        if isinstance(event, NodeUp | NodeDown):
            nodes.setdefault(event.node, []).append(event)
    announced = {name for name, moves in nodes.items() if any(isinstance(m, NodeUp) for m in moves)}
    if any(isinstance(e, Allocated) and e.node not in announced for e in certain):
        return None
    return sum((_up_time(moves, begin, end) for moves in nodes.values()), Fraction(0))


def _up_time(moves: list[NodeUp | NodeDown], begin: int, end: int) -> Fraction:
    total = since = gpus = 0
    ordered = sorted(moves, key=lambda m: (m.at, isinstance(m, NodeUp), m.id))
    for at, then in [*((micros(m.at), m.gpus if isinstance(m, NodeUp) else 0) for m in ordered), (FOREVER, 0)]:
        total += max(0, min(at, end) - max(since, begin)) * gpus
        since, gpus = at, then
    return Fraction(total, HOUR)
