"""Buys what pending jobs need when nothing else will place them.

Demand to buy for: jobs past `buy_after` whose reason a purchase could cure; a quota-blocked job never buys.
Machines bought but not ready count as there. One purchase a tick for a job; a spent budget buys nothing. The guard
rails decide what may be bought, and which purchase waits for a person first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from sqlalchemy import Connection

from gpufleet.model.capacity import Offering
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, Node, NodeState
from gpufleet.model.plan import Plan, Reason
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.workload import Job
from gpufleet.procurement.choose import Places, Purchase, allowed, cheapest
from gpufleet.procurement.guards import Spent, hourly_room, instance_room, needs_a_person, on_the_lists, total_of
from gpufleet.procurement.release import JOINS_WITHIN
from gpufleet.scheduling import run_pass as decide
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.services.keep_deadlines import work_left
from gpufleet.services.release_capacity import release_capacity
from gpufleet.services.spending import NANO, spent
from gpufleet.services.stays import estimates_for, expected_lives, newest_sizes
from gpufleet.store import jobs, ledger, operations, verdicts, world

CURABLE: Final = {
    Reason.NOT_ENOUGH,
    Reason.FRAGMENTED,
    Reason.TOPOLOGY,
    Reason.CAPACITY_TYPE,
    Reason.NO_SUCH_MODEL,
    Reason.MEMORY,
    Reason.HOST_RESOURCES,
    Reason.SHARING,
    Reason.UNHEALTHY,
    Reason.TOO_LARGE,
}
PRICE_VALID: Final = timedelta(hours=1)
"""An older price buys nothing."""


@dataclass(frozen=True, slots=True)
class Market:
    """What can be bought, and for how much. `coming` are machines that were bought and take no work yet."""

    on_sale: tuple[tuple[Offering, datetime | None], ...]
    hourly: Fraction
    spent: Spent
    coming: tuple[Node, ...]
    lives: Mapping[str, float]
    """Hours that machines of an offering are expected to stay, where we had some lately."""
    saved: Mapping[str, int]
    """Bytes of the newest save of jobs that wait, where bringing it elsewhere costs something."""


def plan_capacity(fleet: Fleet) -> None:
    """Decide purchases and releases as operations."""
    if not fleet.clouds:
        return
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        snapshot = frozen(connection, fleet, now)
        # one purchase at a time: what is being bought now is neither a machine yet nor money that was spent
        wanted = [] if operations.any_open(connection, "buy") else _wanted(connection, fleet, snapshot)
        market = _market(connection, fleet, snapshot, [job.id for job, _ in wanted])
    for job, left in wanted:
        if (bought := _purchase(fleet, snapshot, market, job, left)) is not None:
            _decide_purchase(fleet, bought, job, now)
            break  # what was bought changes the next job's question
    release_capacity(fleet, lambda: _about_to_start(fleet, snapshot, market.coming))


def _wanted(connection: Connection, fleet: Fleet, snapshot: Snapshot) -> list[tuple[Job, timedelta | None]]:
    """Jobs to buy for, with the work left; one whose purchase waits for a person is not asked for twice."""
    now, frozen_jobs = snapshot.at, {p.job.id: p.job for p in snapshot.pending}
    reasons = verdicts.by_job(connection)
    asked = {row.args["job"] for row in operations.of_kind(connection, "buy", (operations.WAITING,))}
    return [
        (frozen_jobs.get(row.job.id, row.job), work_left(row))
        for row in jobs.live(connection)
        if row.state == "pending"
        and row.waiting_since is not None
        and now - row.waiting_since >= fleet.buying.buy_after
        and row.job.id in reasons
        and reasons[row.job.id].reason in CURABLE
        and row.job.id not in asked
    ]


def _market(connection: Connection, fleet: Fleet, snapshot: Snapshot, wanted: Sequence[str]) -> Market:
    hourly = Fraction(sum(i.price_nano for i in world.instances(connection)), NANO)
    return Market(
        on_sale=tuple((o, held) for o, at, held in world.offerings(connection) if snapshot.at - at < PRICE_VALID),
        hourly=Fraction(fleet.buying.max_hourly) - hourly,
        spent=spent(connection, snapshot.at),
        coming=_coming(connection, snapshot),
        lives=expected_lives(connection, snapshot.at),
        saved=newest_sizes(connection, wanted) if fleet.egress else {},
    )


def _purchase(fleet: Fleet, snapshot: Snapshot, market: Market, job: Job, left: timedelta | None) -> Purchase | None:
    """The purchase with the cheapest hour of work for the job inside every bound; None where there is none, or none is needed."""
    usable = tuple(
        o
        for o, not_before in market.on_sale
        if allowed(o, job, snapshot.at, not_before) and on_the_lists(o, fleet.guards, job.team)
    )
    if not usable:
        return None
    bounds = [market.hourly, hourly_room(fleet.guards, market.spent, job.team)]
    room = min(bound for bound in bounds if bound is not None)
    places = _what_if(fleet, snapshot, market.coming, job, instance_room(fleet.guards, market.spent))
    bought = cheapest(job, usable, places, room, estimates_for(job, market.lives, left, _egress(fleet, market, job)))
    return None if bought is None or _placed(fleet, snapshot, market.coming, job) else bought


def _egress(fleet: Fleet, market: Market, job: Job) -> Callable[[Offering], Fraction]:
    egress, size = fleet.egress, market.saved.get(job.id, 0)
    return lambda offering: egress.cost(offering, size) if egress and size else Fraction(0)


def _coming(connection: Connection, snapshot: Snapshot) -> tuple[Node, ...]:
    """Nodes that were bought and take no work yet: pending, up but not seen in their cluster, or seen there and not
    ready (a node of Kubernetes is in the cluster seconds before it is)."""
    there = {n.instance for n in snapshot.nodes if n.state is not NodeState.CORDONED}
    offerings = {o.name: o for o, _, _ in world.offerings(connection)}
    leaving = operations.states_of(connection, [f"release/{i.name}" for i in world.instances(connection)])
    return tuple(
        _node(offerings[i.offering], i.name)
        for i in world.instances(connection)
        if i.state in ("pending", "ready")
        and i.name not in there
        and i.offering in offerings
        and f"release/{i.name}" not in leaving
        and snapshot.at - i.recorded_at < JOINS_WITHIN
    )


def _node(offering: Offering, name: str) -> Node:
    """The node an instance of this offering will be, as far as its offering tells."""
    model = gpu_model(offering.model)
    position = tuple(offering.position) or (offering.zone,)
    return Node(
        name=name,
        model=model,
        devices=tuple(map(Device, range(offering.gpus))),
        position=position,
        capacity=offering.capacity,
        link=model.link,
        state=NodeState.READY,
        instance=name,
        provider=offering.cloud,
        region=offering.region,
    )


def _what_if(fleet: Fleet, snapshot: Snapshot, coming: tuple[Node, ...], job: Job, most: int | None) -> Places:
    def placed_with(offering: Offering, count: int) -> bool:
        if most is not None and count > most:
            return False
        more = tuple(_node(offering, f"what-if-{n}") for n in range(count))
        return _placed(fleet, snapshot, coming + more, job)

    return placed_with


def _pass_with(fleet: Fleet, snapshot: Snapshot, more: tuple[Node, ...]) -> Plan:
    """What a pass would do with these nodes, ready."""
    expected = {n.instance for n in more}
    nodes = tuple(n for n in snapshot.nodes if n.instance is None or n.instance not in expected) + more
    return decide(replace(snapshot, nodes=nodes), fleet.scheduling, snapshot.at)


def _placed(fleet: Fleet, snapshot: Snapshot, more: tuple[Node, ...], job: Job) -> bool:
    """Whether a pass with these nodes would start the job."""
    plan = _pass_with(fleet, snapshot, more)
    return any(p.job == job.id and not p.after for p in plan.placements)


def _about_to_start(fleet: Fleet, snapshot: Snapshot, coming: tuple[Node, ...]) -> frozenset[str]:
    """Nodes that pending gangs would stand on, once what is coming has come."""
    plan = _pass_with(fleet, snapshot, coming)
    return frozenset(pod.node for placement in plan.placements for pod in placement.pods)


def _decide_purchase(fleet: Fleet, purchase: Purchase, job: Job, now: datetime) -> None:
    with fleet.database.write() as connection:
        row = jobs.get(connection, purchase.job)
        if row is None or row.state != "pending" or operations.any_open(connection, "buy"):
            return
        target = f"buy/{purchase.job}"
        if _was_turned_down(connection, fleet, target, purchase, now):
            return
        state = _state(fleet, purchase, job)
        number = operations.count_on(connection, target) + (state != operations.DRY)
        token = f"{fleet.id}-{purchase.job}-{number}"
        name = f"buy/{token}" if state != operations.DRY else f"dry/{purchase.job}/{purchase.offering.name}"
        if name in operations.states_of(connection, [name]):
            return
        args = _args(purchase, job, token)
        operations.decide(connection, now, kind="buy", target=target, name=name, args=args, state=state)
        action = {operations.DRY: "would-buy", operations.WAITING: "ask"}.get(state, "buy")
        ledger.audit(connection, now, "procurement", action, purchase.offering.name, args["told"])


def _state(fleet: Fleet, purchase: Purchase, job: Job) -> str:
    if fleet.guards.dry_run:
        return operations.DRY
    return operations.WAITING if needs_a_person(purchase, job.runtime, fleet.guards) else "todo"


def _was_turned_down(connection: Connection, fleet: Fleet, target: str, purchase: Purchase, now: datetime) -> bool:
    """A person said no to one as dear, and not long ago."""
    last = operations.newest_on(connection, target)
    if last is None or last.state != "superseded" or not last.args.get("turned_down") or last.done_at is None:
        return False
    recent = now - last.done_at < fleet.guards.ask_again_after
    return recent and purchase.hourly >= Fraction(last.args["hourly"])


def _args(purchase: Purchase, job: Job, token: str) -> dict[str, Any]:
    """What the effect needs, and what a person is shown."""
    total = total_of(purchase, job.runtime)
    told = f"{purchase.count} x {purchase.offering.name} at {float(purchase.hourly):.2f}/h for {purchase.job} ({purchase.why})"
    return {
        "cloud": purchase.offering.cloud,
        "offering": purchase.offering.name,
        "count": purchase.count,
        "token": token,
        "job": purchase.job,
        "team": job.team,
        "hourly": str(purchase.hourly),
        "total": str(total),
        "told": told,
    }
