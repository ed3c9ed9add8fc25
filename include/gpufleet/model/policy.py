"""Knobs of the pure rooms. `settings` builds them from config; every key is documented in docs/formats.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How a pass behaves."""

    ageing_bound: timedelta = timedelta(hours=1)
    """A head that has waited this long holds a reservation on its GPU type."""
    reserve: bool = True
    """Whether it does. Off, it only goes before everybody of its priority: nothing is kept idle for it."""
    response_ratio: bool = False
    """Order among equal priorities: (wait + declared runtime) / declared runtime, the largest first, and who has aged
    before all; off, by age alone."""
    fresh_checkpoint: timedelta = timedelta(minutes=15)
    """A running job may be moved only while its last save (or its start) is not older."""
    move_services: timedelta = timedelta(0)
    """A replica of a service may be moved like other work once it has stood so long where it is; 0 = never."""
    move_gain: timedelta = timedelta(hours=1)
    """What a started GPU is worth in a move: moves may lose less than this for every GPU they let start."""
    moves_per_pass: int = 32
    """Pods that one pass may move at most, for whatever reason."""
    net_gain_horizon: timedelta = timedelta(0)
    """How long a big gang's gain in running GPUs is counted against the work its victims lose; 0 = nobody is stopped
    for throughput alone (docs/decisions/0005)."""
    net_gain_seniority: bool = True
    """Whether net gain leaves alone who has asked before the gang did."""
    leaf_slowdown: float = 1.0
    """How much slower a gang runs on more leaves than it needs: 1.1 was assumed where this was measured; 1 = running
    gangs are left where they are (docs/decisions/0005)."""
    usage_weight: float = 0.0
    """How strongly what a queue used lately counts against its part of the surplus; 0 = not at all."""


@dataclass(frozen=True, slots=True)
class BuyingPolicy:
    """When capacity is bought and given back, and the most that may be spent per hour without a person."""

    buy_after: timedelta = timedelta(minutes=2)
    idle_for: timedelta = timedelta(minutes=10)
    max_hourly: int = 0
    """Whole units of the currency per hour for everything bought on top of commitments; 0 buys nothing."""


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """When a start, an observation or a job is given up."""

    start_timeout: timedelta = timedelta(minutes=2)
    observation_stale_after: timedelta = timedelta(seconds=60)
    node_grace: timedelta = timedelta(seconds=40)
    max_failures: int = 3
    """Own failures of a job (its exit code) before it is given up."""
    node_backoff: timedelta = timedelta(minutes=10)
    idle_below: float = 0.05
    """GPUs that work a smaller part of the time are idle, ..."""
    idle_alarm: timedelta = timedelta(minutes=30)
    """... and are told of when they have been for so long."""
