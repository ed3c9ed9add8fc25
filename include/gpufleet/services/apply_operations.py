"""Carries out effects that were written down: lease, look again, do it idempotently, record the result.

After a kill anywhere the next caller finds the row, its lease runs out, and the effect is finished.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Connection

from gpufleet.errors import GpufleetError, NoCapacity, Refused, Temporary
from gpufleet.lifecycle.machine import NothingRuns
from gpufleet.model.hardware import MigInstance
from gpufleet.services.advance import advance
from gpufleet.services.fleet import Fleet
from gpufleet.services.gang import gang_spec
from gpufleet.store import jobs, operations, world
from gpufleet.store.operations import Operation

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=15)
"""Longer than any effect may take; after it another executor believes this one dead."""
WORKERS: Final = 32
"""Effects at once. They wait for worlds, not for this machine."""
BATCH: Final = 64
RECORD_EVERY: Final = 0.2
"""Seconds between two writes of results: a thousand small launches must not be a thousand transactions."""
MAX_TRIES: Final = 20
MAY_BE_GIVEN_UP: Final = ("launch", "save", "buy", "repartition")
"""Something else follows when these fail. A stop or a release that is given up would hold places, and cost, for ever."""
AVOID_AFTER_NO_CAPACITY: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Skip:
    """The effect is not wanted any more."""

    why: str


def apply_operations(fleet: Fleet) -> int:
    """Do everything that may be done now, in parallel over targets; returns how many effects were tried."""
    tried = 0
    done = _Done(fleet)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="operation") as pool:
        while batch := _lease_batch(fleet):
            tried += len(batch)
            list(pool.map(partial(_execute, fleet, done), batch))
            done.write()
    return tried


Leased = tuple[Operation, str]


class _Done:
    """Effects that came to an end, written down together. What a kill loses is done again, and found done."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lock = threading.Lock()
        self._ended: list[tuple[Leased, Skip | None]] = []
        self._written = time.monotonic()

    def add(self, leased: Leased, skipped: Skip | None) -> None:
        with self._lock:
            self._ended.append((leased, skipped))
            due = time.monotonic() - self._written >= RECORD_EVERY
        if due:
            self.write()

    def write(self) -> None:
        with self._lock:
            ended, self._ended, self._written = self._ended, [], time.monotonic()
        if not ended:
            return
        with self._fleet.database.write() as connection:
            for (operation, token), skipped in ended:
                state, why = ("superseded", skipped.why) if skipped else ("done", "")
                now = self._fleet.clock.now()
                operations.record(connection, operation.id, token, now, state=state, error=why)


def _lease_batch(fleet: Fleet) -> list[Leased]:
    token = secrets.token_hex(8)
    with fleet.database.write() as connection:
        due = operations.lease_due(connection, fleet.clock.now(), token=token, length=LEASE, most=BATCH)
    return [(operation, token) for operation in due]


def _execute(fleet: Fleet, done: _Done, leased: Leased) -> None:
    operation, token = leased
    try:
        skipped = _EFFECTS[operation.kind](fleet, operation)
    except Temporary as e:
        _try_again(fleet, operation, token, e)
    except GpufleetError as e:
        _failed(fleet, operation, token, e)
    except Exception as e:  # a fault of ours must not stop the other operations; it is recorded and told
        log.exception("operation broke", operation=operation.name)
        _failed(fleet, operation, token, e)
    else:
        done.add(leased, skipped)


def _try_again(fleet: Fleet, operation: Operation, token: str, error: Temporary) -> None:
    if isinstance(error, NoCapacity) or (operation.kind in MAY_BE_GIVEN_UP and operation.tries >= MAX_TRIES):
        _failed(fleet, operation, token, error)
        return
    now = fleet.clock.now()
    wait = timedelta(seconds=min(30.0, error.retry_after * 1.5 ** min(operation.tries, 8)))
    with fleet.database.write() as connection:
        operations.postpone(connection, operation.id, token, now + wait, str(error))


def _failed(fleet: Fleet, operation: Operation, token: str, error: Exception) -> None:
    """Record it, and tell whom it concerns."""
    now = fleet.clock.now()
    log.warning("operation failed", operation=operation.name, error=str(error))
    with fleet.database.write() as connection:
        if not operations.record(connection, operation.id, token, now, state="failed", error=str(error)):
            return
        if operation.kind == "launch":
            _launch_failed(fleet, connection, operation, error, now)
        if operation.kind == "buy":
            world.avoid_offering(connection, operation.args["offering"], now + AVOID_AFTER_NO_CAPACITY)


def _launch_failed(fleet: Fleet, connection: Connection, operation: Operation, error: Exception, now: datetime) -> None:
    job, attempt = operation.args["job"], operation.args["attempt"]
    live = jobs.live_attempt(connection, job)
    if live is not None and live.number == attempt:
        wait = (
            fleet.recovery.observation_stale_after / 12
            if isinstance(error, Refused)
            else fleet.recovery.start_timeout / 4
        )
        own = not isinstance(error, Temporary | Refused)  # it can never start: that is counted
        advance(connection, fleet, job, NothingRuns(f"could not start: {error}", own=own), now)
        jobs.change(connection, job, not_before=now + wait)


# ------------------------------------------------------------------ the effects


def _launch(fleet: Fleet, operation: Operation) -> Skip | None:
    job_id, attempt = operation.args["job"], operation.args["attempt"]
    with fleet.database.read() as connection:
        if broken := operations.failed_before(connection, operation.id):
            raise Refused(f"its slices could not be made: {broken}")
        live = jobs.live_attempt(connection, job_id)
        if live is None or live.number != attempt or live.state == "stopping":
            return Skip("the attempt was stopped before it started")
        spec = gang_spec(connection, fleet, job_id, attempt)
    fleet.clusters[live.cluster].launch(spec)
    return None


def _stop(fleet: Fleet, operation: Operation) -> Skip | None:
    cluster = _cluster_of(fleet, operation)
    grace = timedelta(seconds=operation.args["grace"])
    fleet.clusters[cluster].stop(operation.args["job"], operation.args["attempt"], grace=grace)
    return None


def _remove(fleet: Fleet, operation: Operation) -> Skip | None:
    fleet.clusters[_cluster_of(fleet, operation)].remove(operation.args["job"], operation.args["attempt"])
    return None


def _save(fleet: Fleet, operation: Operation) -> Skip | None:
    args = operation.args
    fleet.clusters[_cluster_of(fleet, operation)].request_save(args["job"], args["attempt"], args["number"])
    return None


def _cluster_of(fleet: Fleet, operation: Operation) -> str:
    if "cluster" in operation.args:
        return str(operation.args["cluster"])
    with fleet.database.read() as connection:
        attempts = jobs.attempts(connection, operation.args["job"])
    return next(a.cluster for a in attempts if a.number == operation.args["attempt"])


def _repartition(fleet: Fleet, operation: Operation) -> Skip | None:
    args = operation.args
    destroy, create = (
        tuple(MigInstance(start, profile) for profile, start in args[key]) for key in ("destroy", "create")
    )
    fleet.clusters[args["cluster"]].repartition(args["node"], args["gpu"], destroy=destroy, create=create)
    return None


def _buy(fleet: Fleet, operation: Operation) -> Skip | None:
    args = operation.args
    bought = fleet.clouds[args["cloud"]].launch(args["offering"], args["count"], token=args["token"])
    with fleet.database.write() as connection:
        world.put_instances(connection, args["cloud"], bought, fleet.clock.now())
    return None


def _release(fleet: Fleet, operation: Operation) -> Skip | None:
    fleet.clouds[operation.args["cloud"]].terminate(operation.args["instance"])
    return None


_EFFECTS: Final[dict[str, Callable[[Fleet, Operation], Skip | None]]] = {
    "launch": _launch,
    "stop": _stop,
    "remove": _remove,
    "save": _save,
    "repartition": _repartition,
    "buy": _buy,
    "release": _release,
}
