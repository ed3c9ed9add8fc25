"""The heartbeat: observe, reconcile, pass, apply. Callers coalesce: one holds the lease, the others are served by it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from gpufleet.services.apply_operations import apply_operations
from gpufleet.services.approve_purchase import end_stale_purchases
from gpufleet.services.ask_saves import ask_saves
from gpufleet.services.fences import keep_fences
from gpufleet.services.fleet import Fleet
from gpufleet.services.hand_over import hand_over
from gpufleet.services.keep_deadlines import keep_deadlines
from gpufleet.services.observe import observe
from gpufleet.services.plan_capacity import plan_capacity
from gpufleet.services.reconcile import reconcile
from gpufleet.services.run_pass import run_pass
from gpufleet.store import leases

TICK: Final = "tick"
LEASE: Final = timedelta(seconds=10)
"""A holder that has not come round in this time is taken for dead. Every round renews it, and two at work at once do no
harm: plans are committed only on the revision they were made for, effects only by the holder of their own lease."""
PATIENCE: Final = timedelta(seconds=60)
"""How long a resident caller goes on for others before it lets go once."""


def tick(fleet: Fleet, *, patience: timedelta = PATIENCE) -> bool:
    """Serve every call made until now, this one included; False when another process is at it and will serve us.

    After `patience` the lease is given back even if more calls have come: whoever comes next, or the controller, goes on.
    """
    with fleet.database.write() as connection:
        leases.raise_wanted(connection)
        if not leases.take(connection, TICK, fleet.process, fleet.clock.now(), LEASE):
            return False
    try:
        _rounds(fleet, fleet.clock.now() + patience)
    except BaseException:
        with fleet.database.write() as connection:
            leases.give_back(connection, TICK, fleet.process)
        raise
    return True


def _rounds(fleet: Fleet, until: datetime) -> None:
    while True:
        with fleet.database.write() as connection:
            wanted, _done = leases.counters(connection)
            leases.take(connection, TICK, fleet.process, fleet.clock.now(), LEASE)
        one_round(fleet)
        with fleet.database.write() as connection:
            leases.set_done(connection, wanted)
            if leases.finish(connection, TICK, fleet.process):
                return
            if fleet.clock.now() >= until:
                leases.give_back(connection, TICK, fleet.process)
                return


def one_round(fleet: Fleet) -> None:
    """Look, mend, decide, act; then look once more if anything was done, so callers see its result."""
    looks = observe(fleet)
    reconcile(fleet, looks)
    ask_saves(fleet)
    keep_deadlines(fleet)
    hand_over(fleet)
    run_pass(fleet)
    end_stale_purchases(fleet)
    plan_capacity(fleet)
    keep_fences(fleet)
    if apply_operations(fleet):
        observe(fleet)


def served(fleet: Fleet, wanted: int) -> bool:
    """Whether a call counted as `wanted` has been served."""
    with fleet.database.read() as connection:
        return leases.counters(connection)[1] >= wanted
