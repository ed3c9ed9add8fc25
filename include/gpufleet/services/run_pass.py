"""One scheduling pass on the database: snapshot, plan with no lock held, commit only if nothing changed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from gpufleet.lifecycle.machine import Disturbed, Placed
from gpufleet.model.plan import Eviction, Move, Placement, Plan, Repartition
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import run_pass as decide
from gpufleet.services.advance import advance, advance_all, operation_name, target
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.services.quota_marks import Marks
from gpufleet.store import jobs, leases, operations, verdicts

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
    _commit_placements(connection, fleet, snapshot, plan.placements, remakes, now)
    for eviction in plan.evictions:
        _commit_eviction(connection, fleet, eviction, now)
    for move in plan.moves:
        _commit_move(connection, fleet, move, now)
    verdicts.replace_all(connection, plan.waiting, now)


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


def _commit_placements(
    connection: Connection,
    fleet: Fleet,
    snapshot: Snapshot,
    placements: Iterable[Placement],
    remakes: Remakes,
    now: datetime,
) -> None:
    given = {p.job: p for p in placements if not p.after}
    rows = jobs.get_many(connection, given)
    clusters = {n.name: n.cluster for n in snapshot.nodes}
    starting = [p for job, p in sorted(given.items()) if job in rows and rows[job].state == "pending"]
    marks = _marks(snapshot)
    new = [
        jobs.NewAttempt(p.job, clusters[p.pods[0].node], p.pods, marks.give(rows[p.job].job.queue, p.pods))
        for p in starting
    ]
    numbers = jobs.add_attempts(connection, new, now)
    operations.decide_all(connection, now, [_launch(p, numbers[p.job], remakes) for p in starting])
    jobs.change_many(connection, [{"id": p.job, "not_before": None} for p in starting])
    advance_all(connection, fleet, {job: Placed(number) for job, number in numbers.items()}, now)


def _marks(snapshot: Snapshot) -> Marks:
    """What stays counts; what is leaving makes room."""
    held = [(run.job.queue, run.places) for run in snapshot.running if not run.leaving]
    return Marks(snapshot.queues, {node.name: node.model for node in snapshot.nodes}, held)


def _launch(placement: Placement, number: int, remakes: Remakes) -> operations.Wanted:
    after = sorted({remakes[p.node, gpu] for p in placement.pods for gpu in p.devices if (p.node, gpu) in remakes})
    return operations.Wanted(
        kind="launch",
        target=target(placement.job),
        name=operation_name("launch", placement.job, number),
        args={"job": placement.job, "attempt": number},
        after=tuple(after),
    )


def _commit_eviction(connection: Connection, fleet: Fleet, eviction: Eviction, now: datetime) -> None:
    """The whole attempt stops; an elastic one comes back smaller with the next pass."""
    advance(connection, fleet, eviction.job, Disturbed(f"{eviction.why} for {eviction.for_job}"), now)


def _commit_move(connection: Connection, fleet: Fleet, move: Move, now: datetime) -> None:
    """The attempt saves and stops; the job backs off from the nodes it left, so it starts again elsewhere."""
    why = "moves to fewer leaves" if move.for_job == move.job else f"moves so that {move.for_job} fits"
    advance(connection, fleet, move.job, Disturbed(why, move.sources), now)
