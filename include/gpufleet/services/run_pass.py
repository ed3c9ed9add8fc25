"""One scheduling pass on the database: snapshot, plan with no lock held, commit only if nothing changed meanwhile."""

from __future__ import annotations

from datetime import datetime

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from gpufleet.lifecycle.machine import Disturbed, Placed
from gpufleet.model.plan import Eviction, Move, Placement, Plan, Repartition
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import run_pass as decide
from gpufleet.services.advance import advance, operation_name, target
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.store import jobs, leases, operations

log = structlog.get_logger()

REPLANS = 5
"""Plans thrown away because the fleet changed under them before we leave it to the next tick."""


def run_pass(fleet: Fleet) -> Plan:
    """Plan and commit; returns the plan that was committed (an empty one when every try was overtaken)."""
    for _ in range(REPLANS):
        now = fleet.clock.now()
        with fleet.database.read() as connection:
            snapshot = frozen(connection, fleet, now)
        plan = decide(snapshot, fleet.scheduling, now)
        try:
            with fleet.database.write() as connection:
                if leases.lock_fleet(connection) == snapshot.revision:
                    commit_plan(connection, fleet, snapshot, plan, now)
                    return plan
        except IntegrityError as e:
            # the database's own fences (one live attempt, one holder per device) caught what the revision did not
            log.error("plan refused by the database", error=str(e.orig))
    return Plan()


def commit_plan(connection: Connection, fleet: Fleet, snapshot: Snapshot, plan: Plan, now: datetime) -> None:
    """Write attempts and operations; placements that wait for someone's leaving are planned again when it has left."""
    remakes = _commit_repartitions(connection, plan.repartitions, snapshot, now)
    for placement in plan.placements:
        if not placement.after:
            _commit_placement(connection, fleet, snapshot, placement, remakes, now)
    for eviction in plan.evictions:
        _commit_eviction(connection, fleet, eviction, now)
    for move in plan.moves:
        _commit_move(connection, fleet, move, now)
    jobs.set_verdicts(connection, plan.waiting, now)


Remakes = dict[tuple[str, int], int]
"""(node, gpu) -> the repartition a launch there must wait for."""


def _commit_repartitions(
    connection: Connection, remakes: tuple[Repartition, ...], snapshot: Snapshot, now: datetime
) -> Remakes:
    clusters = {n.name: n.cluster for n in snapshot.nodes}
    return {
        (r.node, r.gpu): operations.decide(
            connection,
            now,
            kind="repartition",
            target=f"gpu/{r.node}/{r.gpu}",
            name=f"repartition/{r.node}/{r.gpu}/{snapshot.revision}",
            args={
                "cluster": clusters[r.node],
                "node": r.node,
                "gpu": r.gpu,
                "destroy": [[i.profile, i.start] for i in r.destroy],
                "create": [[i.profile, i.start] for i in r.create],
            },
        )
        for r in remakes
    }


def _commit_placement(
    connection: Connection, fleet: Fleet, snapshot: Snapshot, placement: Placement, remakes: Remakes, now: datetime
) -> None:
    row = jobs.get(connection, placement.job)
    if row is None or row.state != "pending":
        return
    cluster = next(n.cluster for n in snapshot.nodes if n.name == placement.pods[0].node)
    marks = dict.fromkeys((p.rank for p in placement.pods), "guaranteed")
    number = jobs.add_attempt(connection, row.job, cluster, placement.pods, marks, now)
    after = sorted({remakes[p.node, gpu] for p in placement.pods for gpu in p.devices if (p.node, gpu) in remakes})
    operations.decide(
        connection,
        now,
        kind="launch",
        target=target(row.job.id),
        name=operation_name("launch", row.job.id, number),
        args={"job": row.job.id, "attempt": number},
        after=tuple(after),
    )
    jobs.change(connection, row.job.id, not_before=None)
    advance(connection, fleet, row.job.id, Placed(number), now)


def _commit_eviction(connection: Connection, fleet: Fleet, eviction: Eviction, now: datetime) -> None:
    """The whole attempt stops; an elastic one comes back smaller with the next pass."""
    advance(connection, fleet, eviction.job, Disturbed(f"{eviction.why} for {eviction.for_job}"), now)


def _commit_move(connection: Connection, fleet: Fleet, move: Move, now: datetime) -> None:
    """The attempt saves and stops; the job backs off from the nodes it left, so it starts again elsewhere."""
    why = "moves to fewer leaves" if move.for_job == move.job else f"moves so that {move.for_job} fits"
    advance(connection, fleet, move.job, Disturbed(why, move.sources), now)
