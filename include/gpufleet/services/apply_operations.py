"""Carries out effects that were written down: lease, look again, do it idempotently, record the result.

After a kill anywhere the next caller finds the row, its lease runs out, and the effect is finished.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import Connection

from gpufleet.clouds.base import QuotaReached
from gpufleet.clusters.base import GangSpec
from gpufleet.clusters.handed import Handed
from gpufleet.errors import GpufleetError, NoCapacity, Refused, Temporary, UnderWay
from gpufleet.lifecycle.machine import NothingRuns
from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.model.hardware import MigInstance
from gpufleet.services.advance import advance
from gpufleet.services.fleet import Fleet
from gpufleet.services.gang import gang_specs
from gpufleet.store import jobs, ledger, operations, tenancy, world
from gpufleet.store.jobs import AttemptRow
from gpufleet.store.operations import Operation

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=15)
"""Longer than any effect may take; after it another executor believes this one dead."""
WORKERS: Final = 32
"""Effects under way at once. They wait for other machines; each begins as soon as it is leased."""
RECORD_EVERY: Final = 0.1
"""Seconds between two writes of results: hundreds of quick effects are not hundreds of transactions."""
MAX_TRIES: Final = 20
MAY_BE_GIVEN_UP: Final = ("launch", "save", "buy", "repartition")
"""Something else follows when these fail. A stop or a release that is given up would hold places, and cost, for ever."""
AVOID_AFTER_NO_CAPACITY: Final = timedelta(minutes=10)
AVOID_AFTER_QUOTA: Final = timedelta(hours=1)
"""A quota is raised by people."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The effect is not wanted any more."""

    why: str


@dataclass(frozen=True, slots=True)
class Ready:
    """What the effects of one batch must know, read once after they were leased."""

    live: Mapping[str, AttemptRow]
    """Each job's live attempt."""
    clusters: Mapping[tuple[str, int], str]
    """Where each attempt is or was."""
    gangs: Mapping[tuple[str, int], GangSpec | Handed]
    broken: Mapping[int, str]
    """By operation the error of an effect it waited for."""


Outcome = Skip | Exception | None


def apply_operations(fleet: Fleet) -> int:
    """Do everything that may be done now, in parallel over targets; returns how many effects were tried."""
    tried = 0
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="operation") as pool:
        while True:
            token = secrets.token_hex(8)
            with fleet.database.write() as connection:
                batch = operations.lease(connection, fleet.clock.now(), token=token, length=LEASE, most=WORKERS)
            if not batch:
                return tried
            tried += len(batch)
            ready = _ready(fleet, batch)
            begun = {pool.submit(_outcome, fleet, operation, ready): operation for operation in batch}
            while begun:  # a slow effect must not keep the results of the others past their lease
                ended, _ = wait(begun, timeout=RECORD_EVERY)
                _record(fleet, token, [(begun.pop(one), one.result()) for one in ended])


def _ready(fleet: Fleet, batch: list[Operation]) -> Ready:
    attempts = {(o.args["job"], o.args["attempt"]) for o in batch if "attempt" in o.args}
    launches = [o for o in batch if o.kind == "launch"]
    with fleet.database.read() as connection:
        return Ready(
            live=jobs.live_attempts_of(connection, {job for job, _ in attempts}),
            clusters=jobs.clusters_of(connection, {job for job, _ in attempts}),
            gangs=gang_specs(connection, fleet, [(o.args["job"], o.args["attempt"]) for o in launches]),
            broken=operations.failed_before(connection, [o.id for o in launches]),
        )


def _outcome(fleet: Fleet, operation: Operation, ready: Ready) -> Outcome:
    try:
        return _EFFECTS[operation.kind](fleet, operation, ready)
    except GpufleetError as e:
        return e
    except Exception as e:  # a fault of ours must not stop the other operations; it is recorded and told
        log.exception("operation broke", operation=operation.name)
        return e


def _record(fleet: Fleet, token: str, outcomes: list[tuple[Operation, Outcome]]) -> None:
    if not outcomes:
        return
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        done = [operation.id for operation, outcome in outcomes if outcome is None]
        operations.record_all(connection, done, token, now, state="done")
        for operation, outcome in outcomes:
            if isinstance(outcome, Skip):
                operations.record(connection, operation.id, token, now, state="superseded", error=outcome.why)
    for operation, outcome in outcomes:
        if isinstance(outcome, Temporary):
            _try_again(fleet, operation, token, outcome)
        elif isinstance(outcome, Exception):
            _failed(fleet, operation, token, outcome)


def _try_again(fleet: Fleet, operation: Operation, token: str, error: Temporary) -> None:
    works = isinstance(error, UnderWay)
    tried_enough = operation.kind in MAY_BE_GIVEN_UP and operation.tries >= MAX_TRIES and not works
    if isinstance(error, NoCapacity) or tried_enough:
        _failed(fleet, operation, token, error)
        return
    now = fleet.clock.now()
    longer = 1.0 if works else 1.5 ** min(operation.tries, 8)
    wait = timedelta(seconds=min(30.0, error.retry_after * longer))
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
            _purchase_failed(connection, operation, error, now)


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


def _purchase_failed(connection: Connection, operation: Operation, error: Exception, now: datetime) -> None:
    """The offering is left alone for a while; at a reached quota all that draw on the same one."""
    tried = operation.args["offering"]
    ledger.audit(connection, now, "procurement", "not-bought", tried, str(error))
    if not isinstance(error, QuotaReached):
        world.avoid_offering(connection, tried, now + AVOID_AFTER_NO_CAPACITY)
        return
    sold = {offering.name: offering for offering, _, _ in world.offerings(connection)}
    quota = {_quota_of(offering) for name, offering in sold.items() if name == tried}
    for name in {tried} | {name for name, offering in sold.items() if _quota_of(offering) in quota}:
        world.avoid_offering(connection, name, now + AVOID_AFTER_QUOTA)


def _quota_of(offering: Offering) -> tuple[str, str, CapacityType]:
    """Accounts have quotas by region, for spot apart from the rest."""
    return offering.cloud, offering.region, offering.capacity


# ------------------------------------------------------------------ the effects


def _launch(fleet: Fleet, operation: Operation, ready: Ready) -> Skip | None:
    job, attempt = operation.args["job"], operation.args["attempt"]
    if broken := ready.broken.get(operation.id):
        raise Refused(f"its slices could not be made: {broken}")
    live = ready.live.get(job)
    if live is None or live.number != attempt or live.state == "stopping":
        return Skip("the attempt was stopped before it started")
    cluster, gang = fleet.clusters[live.cluster], ready.gangs[job, attempt]
    if isinstance(gang, Handed):
        cluster.hand_over(gang)
    else:
        cluster.launch(gang)
    return None


def _stop(fleet: Fleet, operation: Operation, ready: Ready) -> Skip | None:
    grace = timedelta(seconds=operation.args["grace"])
    cluster = fleet.clusters[_cluster_of(operation, ready)]
    cluster.stop(operation.args["job"], operation.args["attempt"], grace=grace)
    return None


def _remove(fleet: Fleet, operation: Operation, ready: Ready) -> Skip | None:
    fleet.clusters[_cluster_of(operation, ready)].remove(operation.args["job"], operation.args["attempt"])
    return None


def _save(fleet: Fleet, operation: Operation, ready: Ready) -> Skip | None:
    args = operation.args
    fleet.clusters[_cluster_of(operation, ready)].request_save(args["job"], args["attempt"], args["number"])
    return None


def _cluster_of(operation: Operation, ready: Ready) -> str:
    """An orphan's is told by the operation itself: there is no attempt of it."""
    args = operation.args
    return str(args.get("cluster") or ready.clusters[args["job"], args["attempt"]])


def _repartition(fleet: Fleet, operation: Operation, _ready: Ready) -> Skip | None:
    args = operation.args
    destroy, create = (
        tuple(MigInstance(start, profile) for profile, start in args[key]) for key in ("destroy", "create")
    )
    fleet.clusters[args["cluster"]].repartition(args["node"], args["gpu"], destroy=destroy, create=create)
    return None


def _buy(fleet: Fleet, operation: Operation, _ready: Ready) -> Skip | None:
    args = operation.args
    bought = fleet.clouds[args["cloud"]].launch(args["offering"], args["count"], token=args["token"])
    with fleet.database.write() as connection:
        world.put_instances(connection, args["cloud"], bought, fleet.clock.now())
    return None


def _release(fleet: Fleet, operation: Operation, _ready: Ready) -> Skip | None:
    fleet.clouds[operation.args["cloud"]].terminate(operation.args["instance"])
    return None


def _fence(fleet: Fleet, operation: Operation, _ready: Ready) -> Skip | None:
    with fleet.database.read() as connection:
        teams, queues = tenancy.teams(connection), tenancy.queues(connection)
    fleet.clusters[operation.args["cluster"]].fence(teams, queues)
    return None


_EFFECTS: Final[dict[str, Callable[[Fleet, Operation, Ready], Skip | None]]] = {
    "launch": _launch,
    "stop": _stop,
    "remove": _remove,
    "save": _save,
    "repartition": _repartition,
    "buy": _buy,
    "release": _release,
    "fence": _fence,
}
