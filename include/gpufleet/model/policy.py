"""Knobs of the pure rooms. `settings` builds them from config; every key is documented in docs/formats.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How a pass behaves."""

    ageing_bound: timedelta = timedelta(hours=1)
    """A head that has waited this long holds a reservation on its GPU type."""
    fresh_checkpoint: timedelta = timedelta(minutes=15)
    """A running job may be moved only while its last save (or its start) is not older."""
    move_gain: timedelta = timedelta(hours=1)
    """What a started GPU is worth in a move: moves may lose less than this for every GPU they let start."""


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
